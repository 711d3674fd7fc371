-- The quick way of windows of which most are expected to be open and to have room: see fixed_window.lua.

-- Takes a unit of each window without a look, up to the first that turns out not to be open or to have no room: answers
-- with what that has become.
--
-- For a key that cannot be counted on Redis answers with a table, whose arithmetic is an error here: to ask of each
-- answer whether it is a number would be 5 % of Redis's work.
local function increment_all(first, last, windows, min_window, past_window, max_count)
  local COUNTS = 8192
  local names, call, count = KEYS, redis.pcall, 0
  for key = first, last do
    local window = call('INCR', names[key])
    local used = window % COUNTS
    if window < min_window or window >= past_window or used <= 1 or used > max_count then
      return window
    end
    count = count + 1
    windows[count] = -window
  end
end

-- The same where most windows are expected to be open and to have room: the unit is taken without a look, and given back
-- if it was not so.
local function fixed_window_take_optimistic(context, at, first, last)
  local after, min_window, past_window, max_count = window_bounds(context, at)
  local key, group = first
  while key <= last do
    local windows = {}
    local is_number, window = pcall(increment_all, key, last, windows, min_window, past_window, max_count)
    local count = #windows
    if count > 0 then
      key, context.outcome_count = key + count, context.outcome_count + count
      -- Each in one double, which is negative.
      context.states[#context.states + 1] = struct.pack('>' .. string.rep('d', count), unpack(windows))
    end
    if key <= last then
      local general_path = context.load_general_path(context)
      group = general_path.fall_back(
        context, group, 2, at, key, general_path.undo_increment(KEYS[key], is_number and window)
      )
      key = key + 1
    end
  end
  return after, group
end

return fixed_window_take_optimistic, window_bounds
