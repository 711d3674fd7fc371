-- The sliding window's buckets as a hash.
--
-- A field is the end of a bucket in decimal digits, its value the units admitted in it; the field 'settles' says
-- when the key settles. A call reads all of them.

local function sliding_window_hash(round, source, at)
  local SETTLES, EXTRAS = 'settles', 'extras'
  return sliding_window(round, source, at, function(window)
    -- By key: what the hash holds, a field behind the other, each with its value; the fields of the entries that do
    -- not count; and the units of the newest.
    local held, gone, newest_units = {}, {}, {}

    -- The fields of all entries but the given one.
    local function fields_but(key, kept)
      local values, fields = held[key], {}
      for index = 1, #values, 2 do
        local field = values[index]
        if field ~= SETTLES and field ~= EXTRAS and field ~= kept then
          fields[#fields + 1] = field
        end
      end
      return fields
    end

    local function read(key)
      local values = redis.pcall('HGETALL', KEYS[key])
      if values.err then
        return
      end
      if #values == 0 then
        return 0, 0, 0
      end
      local newest_end, units, fields, settles = 0, 0, {}
      for index = 1, #values, 2 do
        local field, number = values[index], tonumber(values[index + 1])
        if field == EXTRAS then
          window.trailers[key] = values[index + 1]
        elseif not whole(number) then
          return
        elseif field == SETTLES then
          settles = number
        else
          local entry_end = tonumber(field)
          if not whole(entry_end) then
            return
          end
          if entry_end > newest_end then
            newest_end, newest_units[key] = entry_end, number
          end
          if entry_end > window.horizon then
            units = units + number
          else
            fields[#fields + 1] = field
          end
        end
      end
      held[key] = values
      if newest_end == 0 and not settles and window.trailers[key] then
        return 0, 0, 0
      end
      if not settles or newest_end == 0 then
        return
      end
      if window.now >= settles then
        units, fields = 0, fields_but(key)
      end
      gone[key] = fields
      return newest_end, units, settles
    end

    local function end_with(key, units)
      local values, ends, units_of = held[key], {}, {}
      for index = 1, #values, 2 do
        local entry_end = tonumber(values[index])
        if entry_end and entry_end > window.horizon then
          ends[#ends + 1] = entry_end
          units_of[entry_end] = tonumber(values[index + 1])
        end
      end
      table.sort(ends)
      for _, entry_end in ipairs(ends) do
        units = units - units_of[entry_end]
        if units <= 0 then
          return entry_end
        end
      end
    end

    -- Where Redis is short of memory it refuses what may add to a hash, but nothing once something is written: so what
    -- is dropped goes last.
    local function write(key)
      local fields, units = gone[key] or {}, window.added[key]
      if round.extras[key] then
        local text, changed = extras_text(round, key)
        if text == '' then
          changed = redis.pcall('HDEL', KEYS[key], EXTRAS)
        else
          changed = redis.pcall('HSET', KEYS[key], EXTRAS, text)
        end
        if type(changed) == 'table' or (window.added[key] == 0 and not window.rebased[key]) then
          return changed
        end
      end
      local field = string.format('%.0f', window.newest[key])
      if window.rebased[key] then
        units, fields = window.used[key], fields_but(key, field)
      elseif not window.opened[key] then
        units = units + newest_units[key]
      end
      local written
      if window.settled[key] == window.old_settled[key] then
        written = redis.pcall('HSET', KEYS[key], field, units)
      else
        written = redis.pcall('HSET', KEYS[key], field, units, SETTLES, window.settled[key])
      end
      if type(written) == 'table' then
        return written
      end
      for index = 1, #fields, 1000 do
        redis.pcall('HDEL', KEYS[key], unpack(fields, index, math.min(index + 999, #fields)))
      end
      return written
    end

    local function give_back(key, units, entry_end)
      local field = string.format('%.0f', entry_end)
      local there = tonumber(redis.pcall('HGET', KEYS[key], field) or nil)
      if not whole(there) then
        return 0
      end
      local back = math.min(units, there)
      redis.pcall('HSET', KEYS[key], field, there - back)
      return back
    end

    return read, end_with, write, give_back
  end)
end
