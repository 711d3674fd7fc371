-- Optimistic fast path for fixed windows: increments each window without reading it first, and
-- undoes the increment of a window that was closed or full. Used when most windows are expected to
-- be open and to have room. general.lua describes the value and the policy.
--
-- `fixedWindow` with 10,000 keys at random, one process and Redis on two cores: 338,000 calls a second
-- with 64 in flight and 808,000 with 512. Where the windows are read first: 269,000 and 553,000.

-- Increments the windows in turn. Stops at the first window that was closed or full, and returns
-- its value after the increment.
--
-- For a key that INCR cannot increment, Redis returns a table, and the arithmetic on it raises an
-- error. A type check of each reply instead would cost 5 % of Redis's work.
local function increment_all(first, last, windows, min_window, past_window, max_count)
  local names, call, count = KEYS, redis.pcall, 0
  for key = first, last do
    local window = call('INCR', names[key])
    local used = window % VALUE_COUNTS
    if window < min_window or window >= past_window or used <= 1 or used > max_count then
      return window
    end
    count = count + 1
    windows[count] = -window
  end
end

-- The bounds of windows that are charged now: the position after the policy, and those of bounds.lua.
local function window_bounds(context, at)
  local now, request = context.now, context.request
  --@include fixed_window/policy.lua
  --@include fixed_window/bounds.lua
  return after, min_window, past_window, max_count
end

-- One take of one unit on each key. The general path decides the keys whose increment it undoes.
local function fixed_window_take_optimistic(context, at, first, last)
  local after, min_window, past_window, max_count = window_bounds(context, at)
  local key, group = first
  while key <= last do
    local windows = {}
    local is_number, window = pcall(increment_all, key, last, windows, min_window, past_window, max_count)
    local count = #windows
    if count > 0 then
      key, context.outcome_count = key + count, context.outcome_count + count
      -- Each packed window is one negative double.
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
