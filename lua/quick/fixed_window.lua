-- The quick ways of windows: see fixed_window.lua.

-- The limit, whether refused calls count, the end of a window that opens now, the latest that a window can have now,
-- and where the request goes on. If none of a calendar's windows is open now, no window opens.
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

-- What a packed window that is open and has had a unit taken is at least, one that ends too late, and the most units
-- that it may have.
local function window_bounds(round, at)
  local EPOCH, COUNTS = 1577836800000, 8192
  local limit, _, new_end, latest_end, after = window_numbers(round.now, round.request, at)
  local least = new_end and (math.floor(round.now / 1000) + 1 - EPOCH) * COUNTS or math.huge
  return after, least, (latest_end + 1 - EPOCH) * COUNTS, math.min(limit, COUNTS - 1)
end

-- The quick way among several policies (several.lua): the packed windows with a unit more.
local function fixed_window_units(round, at, values, count)
  local COUNTS = 8192
  local tonumber, windows = tonumber, {}
  local after, least, beyond, most = window_bounds(round, at)
  for index = 1, count do
    local window = tonumber(values[index])
    if window and window >= least and window < beyond then
      local used = window % COUNTS + 1
      if used > 1 and used <= most and used % 1 == 0 then
        windows[index] = window + 1
      end
    end
  end
  return after, windows
end

-- Gives a unit back that was taken without a look, if it was, and tells what the value was.
local function untaken(name, window)
  if window then
    -- What there was before, if anything: 0 is nothing.
    redis.pcall(window == 1 and 'DEL' or 'DECR', name)
  end
  local value = redis.pcall('GET', name)
  return type(value) == 'string' and value
end

-- Tells of windows that have had a unit taken: each in one double, which is negative.
local function tell_windows(round, windows, count)
  if count > 0 then
    round.count = round.count + count
    round.states[#round.states + 1] = struct.pack('>' .. string.rep('d', count), unpack(windows, 1, count))
  end
end

-- One unit for each key: what the twin's functions do, without their calls and tables, for a key whose packed window
-- is open and has room for a unit.
local function fixed_window_quick(round, at, first, last)
  local COUNTS = 8192
  local names, call, tonumber = KEYS, redis.pcall, tonumber
  local after, least, beyond, most = window_bounds(round, at)
  local values = call('MGET', unpack(names, first, last))
  local windows, count, group = {}, 0
  for key = first, last do
    -- The window with the unit.
    local window = tonumber(values[key - first + 1])
    window = window and window + 1
    local used = window and window % COUNTS
    if window and window >= least and window < beyond and used > 1 and used <= most and used % 1 == 0 then
      count = count + 1
      windows[count] = -window
      local written = call('INCR', names[key])
      if written ~= window then
        fail(round, round.count + count, written)
      end
    else
      tell_windows(round, windows, count)
      count = 0
      group = leave(round, group, 2, at, key, values[key - first + 1])
    end
  end
  tell_windows(round, windows, count)
  return after, group
end

-- Takes a unit of each window without a look, up to the first that turns out not to be open or to have no room: answers
-- with what that has become.
--
-- For a key that cannot be counted on Redis answers with a table, whose arithmetic is an error here: to ask of each
-- answer whether it is a number would be 5 % of Redis's work.
local function take_unseen(first, last, windows, least, beyond, most)
  local COUNTS = 8192
  local names, call, count = KEYS, redis.pcall, 0
  for key = first, last do
    local window = call('INCR', names[key])
    local used = window % COUNTS
    if window < least or window >= beyond or used <= 1 or used > most then
      return window
    end
    count = count + 1
    windows[count] = -window
  end
end

-- The same where most windows are expected to be open and to have room: the unit is taken without a look, and given back
-- if it was not so.
local function fixed_window_unseen(round, at, first, last)
  local after, least, beyond, most = window_bounds(round, at)
  local key, group = first
  while key <= last do
    local windows = {}
    local is_number, window = pcall(take_unseen, key, last, windows, least, beyond, most)
    key = key + #windows
    tell_windows(round, windows, #windows)
    if key <= last then
      group = leave(round, group, 2, at, key, untaken(KEYS[key], is_number and window))
      key = key + 1
    end
  end
  return after, group
end
