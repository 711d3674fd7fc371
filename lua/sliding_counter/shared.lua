-- Window arithmetic of sliding counters, for the fast path and the general path.

-- The end of the grid's open window.
local function end_of_window(now_ms, length)
  return now_ms - now_ms % length + length
end
