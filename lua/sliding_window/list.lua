-- The sliding window's buckets as a list.
--
-- An element is an entry, oldest first: four doubles and a two-byte number, then the key metadata
-- in the newest element.
--
-- double     the bucket's end
-- double     the running total of units before the bucket
-- double     the running total after it
-- double     the reset time; valid in the newest element
-- two bytes  the number of expired elements at the head; valid in the newest element
--
-- The units that count are the newest element's total less the total before the oldest element that
-- counts. So a call reads two elements, and a call that adds to the newest entry writes one,
-- however many buckets there are. Elements are found by their position, never by their value.
--
-- Expired elements stay until a call is admitted. From then on no version counts them, and they are
-- dropped once there are DROP_EVERY of them. The first element that counts, and the element with
-- whose expiry enough units no longer count, are found by binary search.

local function sliding_window_list(context, source, at)
  local ELEMENT, DROP_EVERY, LIMIT = '>ddddI2', 32, 9007199254740992
  local call, pack, unpack_struct = redis.pcall, struct.pack, struct.unpack
  return sliding_window(context, source, at, function(window)
    -- By key: the positions and numbers of the elements that were read. `expired_counts` elements
    -- at the head do not count; nil if no element counts.
    local expired_counts = {}
    local first_end, first_before, first_after = {}, {}, {}
    local last_before, last_after, last_expired = {}, {}, {}

    -- The element at a position; nil if there is none or it cannot be read.
    local function decode_element(key, position)
      local value = call('LINDEX', KEYS[key], tostring(position))
      if type(value) ~= 'string' or #value < VALUE_ELEMENT_SIZE then
        return nil, value
      end
      local entry_end, before, after, reset_at, expired = unpack_struct(ELEMENT, value)
      local suffix = #value > VALUE_ELEMENT_SIZE and string.sub(value, VALUE_ELEMENT_SIZE + 1)
      if suffix and split_metadata(suffix) ~= '' then
        return
      end
      if
        entry_end > 0 and entry_end < LIMIT and reset_at > 0 and reset_at < LIMIT
        and before >= 0 and before <= after and after < LIMIT
        and entry_end % 1 + before % 1 + after % 1 + reset_at % 1 == 0
      then
        return entry_end, before, after, reset_at, expired, suffix
      end
    end

    -- Encodes the newest element with the metadata.
    local function encode_newest(key, entry_end, before, after, reset_at, expired)
      return pack(ELEMENT, entry_end, before, after, reset_at, expired) .. encode_metadata(context, key)
    end

    -- The first element after position `low` that ends later than `after_time` and has a total of
    -- at least `min_total`. The newest element does, and elements before the first do not. The
    -- search steps double, then halve.
    local function find_after(key, low, after_time, min_total)
      local high, step = low + 1, 1
      local found_end, found_before, found_after
      while true do
        local entry_end, before, after = decode_element(key, high)
        if not entry_end or (entry_end > after_time and after >= min_total) then
          found_end, found_before, found_after = entry_end, before, after
          break
        end
        low, step = high, step * 2
        high = low + step
      end
      while high - low > 1 do
        local position = math.floor((low + high) / 2)
        local entry_end, before, after = decode_element(key, position)
        if not entry_end or (entry_end > after_time and after >= min_total) then
          high, found_end, found_before, found_after = position, entry_end, before, after
        else
          low = position
        end
      end
      return high, found_end, found_before, found_after
    end

    local function read(key)
      local newest_end, before, after, reset_at, expired, suffix = decode_element(key, '-1')
      if not newest_end then
        if before == false then
          return 0, 0, 0
        end
        return
      end
      last_before[key], last_after[key], last_expired[key], window.suffixes[key] = before, after, expired, suffix
      if window.now >= reset_at or newest_end <= window.horizon then
        return newest_end, 0, reset_at
      end
      local position, entry_end, total_before, total_after = expired, decode_element(key, expired)
      if entry_end and entry_end <= window.horizon then
        position, entry_end, total_before, total_after = find_after(key, expired, window.horizon, 0)
      end
      if not entry_end or total_before > after then
        return
      end
      expired_counts[key] = position
      first_end[key], first_before[key], first_after[key] = entry_end, total_before, total_after
      return newest_end, after - total_before, reset_at
    end

    local function end_with(key, units)
      local min_total = first_before[key] + units
      if first_after[key] >= min_total then
        return first_end[key]
      end
      local _, entry_end = find_after(key, expired_counts[key], window.horizon, min_total)
      return entry_end
    end

    -- Drops all but the last `count` elements.
    local function keep_last(key, count)
      return call('LTRIM', KEYS[key], -count, '-1')
    end

    -- Writes the elements that count again, with totals from 0. This happens once in 2^53 units.
    local function rebase_totals(key)
      local values = call('LRANGE', KEYS[key], tostring(expired_counts[key]), '-1')
      local base, total = first_before[key], last_after[key] - first_before[key] + window.added[key]
      for index, value in ipairs(values) do
        local entry_end, before, after, reset_at = unpack_struct(ELEMENT, value)
        values[index] = pack(ELEMENT, entry_end, before - base, after - base, reset_at, 0)
      end
      if window.new_entries[key] then
        local before = total - window.added[key]
        values[#values + 1] = encode_newest(key, window.newest[key], before, total, window.reset_times[key], 0)
      else
        local before = last_before[key] - base
        values[#values] = encode_newest(key, window.newest[key], before, total, window.reset_times[key], 0)
      end
      local reply = call('RPUSH', KEYS[key], unpack(values))
      return type(reply) == 'table' and reply or keep_last(key, #values)
    end

    -- LTRIM comes last: a Redis that is short of memory refuses commands that may add to a list,
    -- but only until the script has written something.
    local function write(key)
      if window.added[key] == 0 and not window.rebased[key] and window.old_newest[key] > 0 then
        -- Nothing was charged. Expired elements stay, because they may count again under other
        -- numbers.
        local newest_end, reset_at = window.old_newest[key], window.old_reset_times[key]
        local value = encode_newest(key, newest_end, last_before[key], last_after[key], reset_at, last_expired[key])
        return call('LSET', KEYS[key], '-1', value)
      end
      local position = expired_counts[key]
      if window.rebased[key] or not position then
        -- Without an entry, the metadata is stored in an element that never counts.
        local entry_end, reset_at = math.max(window.newest[key], 1), math.max(window.reset_times[key], 1)
        local value = encode_newest(key, entry_end, 0, window.used[key], reset_at, 0)
        local reply = call('RPUSH', KEYS[key], value)
        if type(reply) == 'table' or window.old_newest[key] == 0 then
          return reply
        end
        return keep_last(key, 1)
      end
      local before, after = last_before[key], last_after[key]
      local total = after + window.added[key]
      if total >= LIMIT then
        return rebase_totals(key)
      end
      local is_trim = position >= DROP_EVERY
      local reply
      local expired = is_trim and 0 or position
      if window.new_entries[key] then
        local value = encode_newest(key, window.newest[key], after, total, window.reset_times[key], expired)
        reply = call('RPUSH', KEYS[key], value)
      else
        local value = encode_newest(key, window.newest[key], before, total, window.reset_times[key], expired)
        reply = call('LSET', KEYS[key], '-1', value)
      end
      if not is_trim or (type(reply) == 'table' and reply.err) then
        return reply
      end
      return call('LTRIM', KEYS[key], tostring(position), '-1')
    end

    -- Lowers all totals from this entry on by the refunded units.
    local function refund_entry(key, units, entry_end)
      local position, found_end, before, after = find_after(key, expired_counts[key] - 1, entry_end - 1, 0)
      if found_end ~= entry_end then
        return 0
      end
      local refunded = math.min(units, after - before)
      for index, value in ipairs(call('LRANGE', KEYS[key], tostring(position), '-1')) do
        local e, b, a, s, l = unpack_struct(ELEMENT, value)
        local changed = pack(ELEMENT, e, index > 1 and b - refunded or b, a - refunded, s, l)
        call('LSET', KEYS[key], tostring(position + index - 1), changed .. string.sub(value, VALUE_ELEMENT_SIZE + 1))
      end
      return refunded
    end

    return read, end_with, write, refund_entry
  end)
end
