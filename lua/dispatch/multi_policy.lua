-- Fast path for takes under several policies: the n-th call takes one unit, or its cost, from the
-- n-th key of each policy.
--
-- The request has the number of policies (one byte) and, for each, its algorithm (one byte) and its
-- numbers. All policies have the same number of keys. With FORM_MULTI_POLICY_METERED, costs are by
-- policy: one double for each call follows each algorithm.
--
-- With FORM_MULTI_POLICY_OPTIMISTIC, fixed windows are not read. Once the other policies admit the
-- call, INCR charges the windows, and the general path undoes the increment of a window that was
-- closed or full.
local function multi_policy(context, at, key_offset, key_count, costs, form, window_optimistic)
  local is_optimistic, is_metered = form == FORM_MULTI_POLICY_OPTIMISTIC, form == FORM_MULTI_POLICY_METERED
  local costs_of_policy, double_of_call = {}, is_metered and '>' .. string.rep('d', key_count)
  local names, call, pack, unpack_struct, tonumber = KEYS, redis.pcall, struct.pack, struct.unpack, tonumber
  local policy_count
  policy_count, at = unpack_struct('>I1', context.request, at)
  -- By policy: the number of keys before its first key, its algorithm, the position of its numbers,
  -- the values of its keys, and their states after one more call. `bounds` are those of the windows
  -- that are not read.
  local key_offsets, algorithms, policy_starts, values, next_states, value_sizes, bounds = {}, {}, {}, {}, {}, {}, {}
  local _, window_bounds = window_optimistic()
  for index = 1, policy_count do
    local algorithm
    algorithm, at = unpack_struct('>I1', context.request, at)
    algorithms[index] = algorithm
    if is_metered then
      costs = { unpack_struct(double_of_call, context.request, at) }
      costs_of_policy[index], at = costs, at + 8 * key_count
    end
    key_offsets[index], policy_starts[index] = key_offset, at
    if is_optimistic and algorithm == ALGORITHM_FIXED_WINDOW then
      local bound = {}
      at, bound.min, bound.past_end, bound.max_count = window_bounds(context, at)
      bounds[index], values[index] = bound, {}
    else
      values[index] = redis.call('MGET', unpack(names, key_offset + 1, key_offset + key_count))
      local next_states_of = fast_paths[algorithm]()
      at, next_states[index], value_sizes[index] = next_states_of(context, at, values[index], key_count, costs)
    end
    key_offset = key_offset + key_count
  end

  local count, states, state_count, group = context.outcome_count, context.states, #context.states
  local counters = {}
  for number = 1, key_count do
    local is_fast = true
    for index = 1, policy_count do
      is_fast = is_fast and (bounds[index] or next_states[index][number])
    end
    -- The optimistic windows of policies up to this number have been incremented.
    local incremented = 0
    while is_fast and is_optimistic and incremented < policy_count do
      incremented = incremented + 1
      local bound = bounds[incremented]
      if bound then
        local window = tonumber(call('INCR', names[key_offsets[incremented] + number]))
        local used = window and window % VALUE_COUNTS
        counters[incremented] = window
        is_fast = window and window >= bound.min and window < bound.past_end and used > 1 and used <= bound.max_count
      end
    end
    if is_fast then
      for index = 1, policy_count do
        local name = names[key_offsets[index] + number]
        local state, reply, expected = not bounds[index] and next_states[index][number]
        if type(state) == 'string' then
          reply, expected = call('SETRANGE', name, '0', state), value_sizes[index]
        else
          expected = state or counters[index]
          reply = expected
          if state then
            local own_costs = costs_of_policy[index] or costs
            reply = own_costs and call('INCRBY', name, tostring(own_costs[number])) or call('INCR', name)
          end
          state = pack('>d', -expected)
        end
        count, state_count = count + 1, state_count + 1
        states[state_count] = state
        if reply ~= expected then
          context.load_general_path(context).fail(context, count, reply)
        end
      end
    else
      context.outcome_count = count
      local general_path = context.load_general_path(context)
      if not group then
        group = general_path.new_group()
        for index = 1, policy_count do
          general_path.open_policy(context, group, general_path.algorithms[algorithms[index]], policy_starts[index])
        end
      end
      local keys, cost = {}, is_metered and {} or costs and costs[number] or 1
      for index, executor in ipairs(group.executors) do
        local key = key_offsets[index] + number
        keys[index] = key
        if is_metered then
          cost[index] = costs_of_policy[index][number]
        end
        local value = values[index][number]
        if bounds[index] then
          value = general_path.undo_increment(names[key], index <= incremented and counters[index])
        end
        if not group.is_stale then
          general_path.load_key(context, group, executor, key, value)
        end
      end
      general_path.take(context, group, keys, cost)
      count, state_count = context.outcome_count, #states
    end
  end
  context.outcome_count = count
  return at, key_offset, group
end
