-- Decoding of a fixed-window policy, for the fast paths and the general path.

-- The limit, whether refused calls count, the end of a window opened now, the latest end that a
-- window can have now, and the position after the policy. If no calendar window is open now, the
-- end of a new window is nil.
local function window_numbers(now, source, at)
  local limit, window, counts_refused, after = struct.unpack('>ddd', source, at)
  if window > 0 then
    local new_end = math.ceil((now + window) / 1000)
    return limit, counts_refused, new_end, new_end, after
  end
  local numbers = { struct.unpack('>ddddddddd', source, after) }
  local new_end
  for index = 3, 9 do
    if numbers[index] * 1000 > now then
      if numbers[index - 1] * 1000 <= now then
        new_end = numbers[index]
      end
      break
    end
  end
  return limit, counts_refused, new_end, math.floor((now + numbers[1]) / 1000), numbers[10]
end

-- Bounds for packed windows. Returns the position after the policy, the smallest value of an open
-- window, the smallest value that ends too late, the largest count, the limit, and the latest end
-- of a window that is not packed.
local function window_bounds(context, at)
  local EPOCH, COUNTS = 1577836800000, 8192
  local limit, _, new_end, latest_end, after = window_numbers(context.now, context.request, at)
  local min_window = new_end and (math.floor(context.now / 1000) + 1 - EPOCH) * COUNTS or math.huge
  return after, min_window, (latest_end + 1 - EPOCH) * COUNTS, math.min(limit, COUNTS - 1), limit,
    new_end and latest_end or 0
end
