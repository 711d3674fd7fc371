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

-- One unit for each key: what the twin's functions do, without their calls and tables, for a key whose packed window
-- is open and has room for a unit.
--
-- Where that is `expected` of most keys, the unit is taken without a look, and given back if it was not so.
local function fixed_window_quick(round, at, first, last, expected)
  local COUNTS = 8192
  local names, call, tonumber, count = KEYS, redis.pcall, tonumber, round.count
  local after, least, beyond, most = window_bounds(round, at)
  local values = not expected and call('MGET', unpack(names, first, last))
  -- The states that are not told yet: of a packed window one double, which is negative.
  local states, length, group = {}, 0
  for key = first, last do
    -- The window with the unit. A number among a command's arguments would be printed and read again, at a
    -- quarter of the command's time.
    local window
    if expected then
      window = tonumber(call('INCRBY', names[key], '1'))
    else
      window = tonumber(values[key - first + 1])
      window = window and window + 1
    end
    local used = window and window % COUNTS
    if window and window >= least and window < beyond and used > 1 and used <= most and (expected or used % 1 == 0) then
      count = count + 1
      length = length + 1
      states[length] = -window
      if not expected then
        local written = call('INCRBY', names[key], '1')
        if written ~= window then
          fail(round, count, written)
        end
      end
    else
      local value = values and values[key - first + 1]
      if expected then
        value = untaken(names[key], window)
      end
      if length > 0 then
        round.states[#round.states + 1] = struct.pack('>' .. string.rep('d', length), unpack(states, 1, length))
      end
      length, round.count = 0, count
      group = group or general().open_group(round, general().algorithms[2], at)
      general().take_one(round, group, key, value)
      count = round.count
    end
  end
  round.count = count
  round.states[#round.states + 1] = struct.pack('>' .. string.rep('d', length), unpack(states, 1, length))
  return after, group
end
