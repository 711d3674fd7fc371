-- The quick way for one unit on each key, by far the most frequent groups.
--
-- For those an algorithm's file brings a function that is given the values of the keys of a policy and tells of each what
-- a unit would leave, if that is simple, and how long a value is: it changes its state in place with SETRANGE, and its
-- TTL stays as it is. Of windows it tells the packed window, which INCR moves on.

-- Of one policy.
local function quick(round, algorithm, units_of, at, first, last)
  local names, call = KEYS, redis.pcall
  local count, told, length = round.count, round.states, #round.states
  local values = call('MGET', unpack(names, first, last))
  local after, states, size = units_of(round, at, values, last - first + 1)
  local group
  for key = first, last do
    local state = states[key - first + 1]
    if state then
      count, length = count + 1, length + 1
      told[length] = state
      local written = call('SETRANGE', names[key], '0', state)
      if written ~= size then
        fail(round, count, written)
      end
    else
      round.count = count
      group = group or general().open_group(round, general().algorithms[algorithm], at)
      general().take_one(round, group, key, values[key - first + 1])
      count, length = round.count, #told
    end
  end
  round.count = count
  return after, group
end
