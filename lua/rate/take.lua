-- Computes `state`, the state after a take of `cost` units from `value`: only if it has this policy
-- and room for the cost. Such a call changes only the arrival.
local state
if value and #value == value_size and cost <= burst then
  local m, part, p, n, b = struct.unpack('>ddddd', value)
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
    if cost == 1 then
      m, part = m + unit_micros, part + unit_part
    else
      m = m + cost * unit_micros + math.floor(cost * unit_part / units)
      part = part + cost * unit_part % units
    end
    if part >= units then
      m, part = m + 1, part - units
    end
    if m < next_step and (m < max_micros or (m == max_micros and part <= max_part)) then
      state = struct.pack('>dd', m, part)
    end
  end
end
