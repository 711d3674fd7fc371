-- Of several policies, with as many keys each: the number of policies (one byte), and each one's algorithm (one byte) and
-- numbers.
--
-- Where it is `expected` that windows are open and have room, their units are taken without a look once the other
-- policies admit the call, and given back if it was not so.
--
-- The n-th call takes one unit from the n-th key of each policy, or its cost if there are `costs`.
--
-- Given are the ways of algorithms, by the number that a request gives these.
local function quick_several(round, at, before, keys, costs, expected, ways, unseen_way)
  local COUNTS = 8192
  local names, call, pack, unpack_struct, tonumber = KEYS, redis.pcall, struct.pack, struct.unpack, tonumber
  local policies
  policies, at = unpack_struct('>I1', round.request, at)
  -- By policy: the keys before its first, its algorithm and where its numbers stand; its keys' values, and what a unit
  -- would leave; of windows that are not looked at what they must be.
  local befores, algorithms, starts, values, columns, sizes, bounds = {}, {}, {}, {}, {}, {}, {}
  local _, window_bounds = unseen_way()
  for index = 1, policies do
    local algorithm
    algorithm, at = unpack_struct('>I1', round.request, at)
    algorithms[index] = algorithm
    befores[index], starts[index] = before, at
    if expected and algorithm == 2 then
      local bound = {}
      at, bound.least, bound.beyond, bound.most = window_bounds(round, at)
      bounds[index], values[index] = bound, {}
    else
      values[index] = redis.call('MGET', unpack(names, before + 1, before + keys))
      local units_of = ways[algorithm]()
      at, columns[index], sizes[index] = units_of(round, at, values[index], keys, costs)
    end
    before = before + keys
  end

  local count, told, length, group = round.count, round.states, #round.states
  local taken = {}
  for number = 1, keys do
    local is_simple = true
    for index = 1, policies do
      is_simple = is_simple and (bounds[index] or columns[index][number])
    end
    -- The windows that are taken without a look.
    local looked = 0
    while is_simple and expected and looked < policies do
      looked = looked + 1
      local bound = bounds[looked]
      if bound then
        local window = tonumber(call('INCR', names[befores[looked] + number]))
        local used = window and window % COUNTS
        taken[looked] = window
        is_simple = window and window >= bound.least and window < bound.beyond and used > 1 and used <= bound.most
      end
    end
    if is_simple then
      for index = 1, policies do
        local name = names[befores[index] + number]
        local state, written, wanted = not bounds[index] and columns[index][number]
        if type(state) == 'string' then
          written, wanted = call('SETRANGE', name, '0', state), sizes[index]
        else
          wanted = state or taken[index]
          written = wanted
          if state then
            written = costs and call('INCRBY', name, tostring(costs[number])) or call('INCR', name)
          end
          state = pack('>d', -wanted)
        end
        count, length = count + 1, length + 1
        told[length] = state
        if written ~= wanted then
          round.general(round).fail(round, count, written)
        end
      end
    else
      round.count = count
      local general = round.general(round)
      if not group then
        group = general.new_group()
        for index = 1, policies do
          general.open_policy(round, group, general.algorithms[algorithms[index]], starts[index])
        end
      end
      local own = {}
      for index, books in ipairs(group.policies) do
        local key = befores[index] + number
        own[index] = key
        local value = values[index][number]
        if bounds[index] then
          value = general.untaken(names[key], index <= looked and taken[index])
        end
        if not group.stale then
          general.read(round, group, books, key, value)
        end
      end
      general.take(round, group, own, costs and costs[number] or 1)
      count, length = round.count, #told
    end
  end
  round.count = count
  return at, before, group
end
