-- The quick ways of windows that are looked at first: see fixed_window.lua.

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

-- One unit for each key: what the twin's functions do, without their calls and tables, for a key whose packed window
-- is open and has room for a unit.
local function fixed_window_quick(round, at, first, last)
  local COUNTS = 8192
  local names, call, tonumber = KEYS, redis.pcall, tonumber
  local after, least, beyond, most = window_bounds(round, at)
  local values = redis.call('MGET', unpack(names, first, last))
  -- Those that are not told yet.
  local windows, count, group = {}, 0
  for key = first, last + 1 do
    -- The window with the unit.
    local window = tonumber(values[key - first + 1])
    window = window and window + 1
    local used = window and window % COUNTS
    if window and window >= least and window < beyond and used > 1 and used <= most and used % 1 == 0 then
      count = count + 1
      windows[count] = -window
      local written = call('INCR', names[key])
      if written ~= window then
        round.general(round).fail(round, round.count + count, written)
      end
    else
      if count > 0 then
        round.count = round.count + count
        -- Each in one double, which is negative.
        round.states[#round.states + 1] = struct.pack('>' .. string.rep('d', count), unpack(windows, 1, count))
        count = 0
      end
      if key <= last then
        group = round.general(round).leave(round, group, 2, at, key, values[key - first + 1])
      end
    end
  end
  return after, group
end

return fixed_window_units, fixed_window_quick
