-- Decodes a fixed-window policy at `at` of `request`: the end of a window opened now, and the latest
-- end that a window can have now. If no calendar window is open now, the end of a new window is nil.
local limit, window_micros, counts_refused, after = struct.unpack('>ddd', request, at)
local new_end, latest_end
if window_micros > 0 then
  new_end = math.ceil((now + window_micros) / 1000)
  latest_end = new_end
else
  local numbers = { struct.unpack('>ddddddddd', request, after) }
  for index = 3, 9 do
    if numbers[index] * 1000 > now then
      if numbers[index - 1] * 1000 <= now then
        new_end = numbers[index]
      end
      break
    end
  end
  latest_end, after = math.floor((now + numbers[1]) / 1000), numbers[10]
end
