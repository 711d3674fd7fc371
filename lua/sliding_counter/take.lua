-- Computes `state`, the state after a take of `cost` units from `value`: only if it is of the open
-- window and has room for the cost.
local state
if value and #value == 32 then
  local window_end, current, previous, length = struct.unpack('>dddd', value)
  if
    window_end == open_end and length == window
    and current >= 0 and current % 1 == 0 and previous >= 0 and previous % 1 == 0
  then
    local with_cost = current + cost
    local used = with_cost
    if previous > 0 then
      local product = previous * overlap
      local rest = product % window
      used = used + (product - rest) / window
      if rest > 0 then
        used = used + 1
      end
    end
    -- If the call fits, the product was exact.
    if used <= limit then
      state = struct.pack('>ddd', window_end, with_cost, previous)
    end
  end
end
