-- The end of the window of the grid that is open.
local function end_of_window(now_ms, length)
  return now_ms - now_ms % length + length
end
