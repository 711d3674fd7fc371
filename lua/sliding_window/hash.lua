-- The sliding window's buckets as a hash.
--
-- A field is a bucket's end in decimal digits, and its value is the units admitted in the bucket.
-- The field 'settles' has the reset time. The field 'extras' has the key metadata. A call reads all
-- fields.

local function sliding_window_hash(context, source, at)
  local RESET_AT_FIELD, METADATA_FIELD = 'settles', 'extras'
  return sliding_window(context, source, at, function(window)
    -- By key: fields and values in turn, as HGETALL returns them; the fields of the entries that do
    -- not count; the units of the newest entry.
    local contents, expired_fields, newest_units = {}, {}, {}

    -- The fields of all entries except `kept_field`.
    local function fields_but(key, kept_field)
      local values, fields = contents[key], {}
      for index = 1, #values, 2 do
        local field = values[index]
        if field ~= RESET_AT_FIELD and field ~= METADATA_FIELD and field ~= kept_field then
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
      local newest_end, units, fields, reset_at = 0, 0, {}
      for index = 1, #values, 2 do
        local field, number = values[index], tonumber(values[index + 1])
        if field == METADATA_FIELD then
          window.suffixes[key] = values[index + 1]
        elseif not is_integer(number) then
          return
        elseif field == RESET_AT_FIELD then
          reset_at = number
        else
          local entry_end = tonumber(field)
          if not is_integer(entry_end) then
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
      contents[key] = values
      if newest_end == 0 and not reset_at and window.suffixes[key] then
        return 0, 0, 0
      end
      if not reset_at or newest_end == 0 then
        return
      end
      if window.now >= reset_at then
        units, fields = 0, fields_but(key)
      end
      expired_fields[key] = fields
      return newest_end, units, reset_at
    end

    local function end_with(key, units)
      local values, ends, units_of = contents[key], {}, {}
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

    -- HDEL comes last: a Redis that is short of memory refuses commands that may add to a hash, but
    -- only until the script has written something.
    local function write(key)
      local fields, units = expired_fields[key] or {}, window.added[key]
      if context.key_metadata[key] then
        local metadata, reply = encode_metadata(context, key)
        if metadata == '' then
          reply = redis.pcall('HDEL', KEYS[key], METADATA_FIELD)
        else
          reply = redis.pcall('HSET', KEYS[key], METADATA_FIELD, metadata)
        end
        if type(reply) == 'table' or (window.added[key] == 0 and not window.rebased[key]) then
          return reply
        end
      end
      local field = string.format('%.0f', window.newest[key])
      if window.rebased[key] then
        units, fields = window.used[key], fields_but(key, field)
      elseif not window.new_entries[key] then
        units = units + newest_units[key]
      end
      local reply
      if window.reset_times[key] == window.old_reset_times[key] then
        reply = redis.pcall('HSET', KEYS[key], field, units)
      else
        reply = redis.pcall('HSET', KEYS[key], field, units, RESET_AT_FIELD, window.reset_times[key])
      end
      if type(reply) == 'table' then
        return reply
      end
      for index = 1, #fields, 1000 do
        redis.pcall('HDEL', KEYS[key], unpack(fields, index, math.min(index + 999, #fields)))
      end
      return reply
    end

    local function refund_entry(key, units, entry_end)
      local field = string.format('%.0f', entry_end)
      local stored = tonumber(redis.pcall('HGET', KEYS[key], field) or nil)
      if not is_integer(stored) then
        return 0
      end
      local refunded = math.min(units, stored)
      redis.pcall('HSET', KEYS[key], field, stored - refunded)
      return refunded
    end

    return read, end_with, write, refund_entry
  end)
end
