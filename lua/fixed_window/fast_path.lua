-- The quick ways of windows that are looked at first: see fixed_window.lua.

-- What is to stand in the key of a window that is too large to be packed, if it is open and has room for the cost.
local function with_cost(now, value, cost, limit, latest_end)
  if not value or #value ~= 16 then
    return
  end
  local window_end, count = struct.unpack('>dd', value)
  local used = count + cost
  if
    window_end * 1000 > now and window_end <= latest_end and window_end % 1 == 0
    and used > cost and used <= limit and count % 1 == 0
  then
    return struct.pack('>dd', window_end, used)
  end
end

-- The quick way among several policies (several.lua): the packed windows with the units more, and as they are to stand
-- in their keys those that are too large for that.
local function fixed_window_units(round, at, values, count, costs)
  local COUNTS = 8192
  local tonumber, windows = tonumber, {}
  local after, least, beyond, most, limit, latest_end = window_bounds(round, at)
  for index = 1, count do
    local window, cost = tonumber(values[index]), costs and costs[index] or 1
    if not window then
      windows[index] = with_cost(round.now, values[index], cost, limit, latest_end)
    elseif window >= least and window < beyond then
      local used = window % COUNTS + cost
      if used > cost and used <= most and used % 1 == 0 then
        windows[index] = window + cost
      end
    end
  end
  return after, windows, 16
end

-- One call on each key: what the twin's functions do, without their calls and tables, for a key whose window
-- is open and has room for the cost.
local function fixed_window_quick(round, at, first, last, costs)
  local COUNTS = 8192
  local names, call, tonumber = KEYS, redis.pcall, tonumber
  local after, least, beyond, most, limit, latest_end = window_bounds(round, at)
  local values = redis.call('MGET', unpack(names, first, last))
  -- Those that are not told yet.
  local windows, count, group = {}, 0
  for key = first, last + 1 do
    local window, cost = tonumber(values[key - first + 1]), costs and costs[key - first + 1] or 1
    local used = window and window % COUNTS + cost
    if window and window >= least and window < beyond and used > cost and used <= most and used % 1 == 0 then
      window = window + cost
      count = count + 1
      windows[count] = -window
      local written = costs and call('INCRBY', names[key], tostring(cost)) or call('INCR', names[key])
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
      local value = values[key - first + 1]
      local large = key <= last and not window and with_cost(round.now, value, cost, limit, latest_end)
      if large then
        round.count = round.count + 1
        round.states[#round.states + 1] = large
        local written = call('SETRANGE', names[key], '0', large)
        if written ~= 16 then
          round.general(round).fail(round, round.count, written)
        end
      elseif key <= last then
        group = round.general(round).leave(round, group, 2, at, key, value, cost)
      end
    end
  end
  return after, group
end

return fixed_window_units, fixed_window_quick
