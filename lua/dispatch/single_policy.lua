-- The quick way for one call on each key that takes units, by far the most frequent groups: one unit, or the `costs` that
-- are given by key.
--
-- For those an algorithm's file brings a function that is given the values of the keys of a policy and tells of each what
-- the call would leave, if that is simple, and how long a value is: it changes its state in place with SETRANGE, and its
-- TTL stays as it is. Of windows it tells the packed window, which INCR moves on.

-- Of one policy.
local function single_policy(context, algorithm, next_states_of, at, first, last, costs)
  local names, call, key_offset = KEYS, redis.pcall, first - 1
  -- Not pcall: who may not read gets an error before anything has been written.
  local values = redis.call('MGET', unpack(names, first, last))
  local after, states, value_size = next_states_of(context, at, values, last - key_offset, costs)
  -- From there on states are not told yet.
  local pending_from, group = 1
  for number = 1, last - key_offset + 1 do
    local state = states[number]
    if state then
      local reply = call('SETRANGE', names[key_offset + number], '0', state)
      if reply ~= value_size then
        context.load_general_path(context).fail(context, context.outcome_count + number - pending_from + 1, reply)
      end
    else
      if pending_from < number then
        context.outcome_count = context.outcome_count + number - pending_from
        context.states[#context.states + 1] = table.concat(states, '', pending_from, number - 1)
      end
      pending_from = number + 1
      if key_offset + number <= last then
        local cost = costs and costs[number]
        group = context.load_general_path(context).fall_back(
          context, group, algorithm, at, key_offset + number, values[number], cost
        )
      end
    end
  end
  return after, group
end
