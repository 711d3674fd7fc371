-- Fast path for rates. general.lua describes the value and the policy.

-- Decides as the twin does, without its function calls and tables, for keys with a value of this
-- policy and room for the cost. Such a call changes only the arrival.
local function rate_next_states(context, at, values, count, costs)
  local pack, unpack_struct, now, states = struct.pack, struct.unpack, context.now, {}
  local period, units, burst, capacity, initial, unit_micros, unit_part, full_micros, full_part, ttl_step, after =
    unpack_struct('>dddddddddd', context.request, at)
  -- The latest arrival without debt, the length of a value, and the latest arrival of a key that
  -- may be fresh.
  local max_micros, max_part, value_size, max_fresh = now + full_micros, full_part, 40, -1
  if capacity < burst then
    max_micros, max_part = time_of(capacity, unit_micros, unit_part, units)
    max_micros = now + max_micros
  end
  if initial < capacity then
    value_size, max_fresh = 41, math.max(now - 86400000000, -1)
  end
  -- The TTL step of the previous key's arrival. Most arrivals are in the same step.
  local step, next_step = 0, 0
  local cost_micros, cost_part = unit_micros, unit_part
  for index = 1, count do
    local value = values[index]
    if costs then
      -- A cost above the burst is never admitted.
      value = costs[index] <= burst and value
      cost_micros, cost_part = time_of(costs[index], unit_micros, unit_part, units)
    end
    if value and #value == value_size then
      local m, part, p, n, b = unpack_struct('>ddddd', value)
      if
        p == period and n == units and b == burst and m > max_fresh and m % 1 == 0
        and (part == 0 or part > 0 and part < units and part % 1 == 0)
      then
        if m < step or m >= next_step then
          step = m - m % ttl_step
          next_step = step + ttl_step
        end
        if m < now then
          m, part = now, 0
        end
        m, part = m + cost_micros, part + cost_part
        if part >= units then
          m, part = m + 1, part - units
        end
        if m < next_step and (m < max_micros or (m == max_micros and part <= max_part)) then
          states[index] = pack('>dd', m, part)
        end
      end
    end
  end
  return after, states, value_size
end

return rate_next_states
