-- Decodes a rate's policy at `at` of `request`.
local period, units, burst, capacity, initial, unit_micros, unit_part, full_micros, full_part, ttl_step, after =
  struct.unpack('>dddddddddd', request, at)
-- The latest arrival without debt, the length of a value, and the latest arrival of a key that may
-- be fresh.
local max_micros, max_part, value_size, max_fresh = now + full_micros, full_part, 40, -1
if capacity < burst then
  max_micros = now + capacity * unit_micros + math.floor(capacity * unit_part / units)
  max_part = capacity * unit_part % units
end
if initial < capacity then
  value_size, max_fresh = 41, math.max(now - 86400000000, -1)
end
-- The TTL step of the previous key's arrival. Most arrivals are in the same step.
local step, next_step = 0, 0
