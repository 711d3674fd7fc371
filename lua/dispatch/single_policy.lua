-- Fast path for takes under one policy, one call on each key. Most groups have this form. A call
-- takes one unit, or its cost in `costs`.
--
-- The algorithm provides `next_states_of`. It receives the values of the keys, and returns for each
-- key the state after the call, or nil if the general path must decide. It also returns the length
-- of a value. SETRANGE overwrites the state at the start of the value and keeps the TTL.

local function single_policy(context, algorithm, next_states_of, at, first, last, costs)
  local names, call, key_offset = KEYS, redis.pcall, first - 1
  -- `call`, not `pcall`: a client without read permission gets an error before any key is written.
  local values = redis.call('MGET', unpack(names, first, last))
  local after, states, value_size = next_states_of(context, at, values, last - key_offset, costs)
  -- The first of the states that are not in the reply yet.
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
