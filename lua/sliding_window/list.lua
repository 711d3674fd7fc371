-- The sliding window's buckets as a list.
--
-- An element is an entry, oldest first: the bucket's end; the running total of units before and after it; when
-- the key settles; and how many elements at the head are gone. The last two are so of the newest. What counts is
-- the newest's total less that before the oldest that counts: two elements tell, and a call that adds to the
-- newest writes one, however many buckets there are. Elements are found by their place, never by their value.
--
-- What has expired stays until a call is admitted; from then on it is gone, and DROP_EVERY elements are dropped at
-- once. The first element that counts, and the one with which enough units cease to count, are searched for by
-- halving.

local function sliding_window_list(round, source, at)
  local ELEMENT, SIZE, DROP_EVERY, LIMIT = '>ddddI2', 34, 32, 9007199254740992
  local call, pack, unpack_struct = redis.pcall, struct.pack, struct.unpack
  return sliding_window(round, source, at, function(window)
    -- By key: the places and the numbers of what was read. `gone` elements at the head do not count; nil if none of
    -- the list does.
    local gone = {}
    local first_end, first_before, first_after = {}, {}, {}
    local last_before, last_after, last_lost = {}, {}, {}

    -- The element at a place, if there is one that can be read.
    local function element(key, place)
      local value = call('LINDEX', KEYS[key], tostring(place))
      if type(value) ~= 'string' or #value < SIZE then
        return nil, value
      end
      local entry_end, before, after, settles, lost = unpack_struct(ELEMENT, value)
      local trailer = #value > SIZE and string.sub(value, SIZE + 1)
      if trailer and split(trailer) ~= '' then
        return
      end
      if
        entry_end > 0 and entry_end < LIMIT and settles > 0 and settles < LIMIT
        and before >= 0 and before <= after and after < LIMIT
        and entry_end % 1 + before % 1 + after % 1 + settles % 1 == 0
      then
        return entry_end, before, after, settles, lost, trailer
      end
    end

    -- The newest element, with what stands behind the state.
    local function newest_element(key, entry_end, before, after, settles, lost)
      return pack(ELEMENT, entry_end, before, after, settles, lost) .. extras_text(round, key)
    end

    -- The first element behind a place that ends later than a time and has a total no less than the given: the
    -- newest has, and those before the first have not. In growing steps, and then by halving.
    local function first_behind(key, low, later, least)
      local high, step = low + 1, 1
      local found_end, found_before, found_after
      while true do
        local entry_end, before, after = element(key, high)
        if not entry_end or (entry_end > later and after >= least) then
          found_end, found_before, found_after = entry_end, before, after
          break
        end
        low, step = high, step * 2
        high = low + step
      end
      while high - low > 1 do
        local place = math.floor((low + high) / 2)
        local entry_end, before, after = element(key, place)
        if not entry_end or (entry_end > later and after >= least) then
          high, found_end, found_before, found_after = place, entry_end, before, after
        else
          low = place
        end
      end
      return high, found_end, found_before, found_after
    end

    local function read(key)
      local newest_end, before, after, settles, lost, trailer = element(key, '-1')
      if not newest_end then
        if before == false then
          return 0, 0, 0
        end
        return
      end
      last_before[key], last_after[key], last_lost[key], window.trailers[key] = before, after, lost, trailer
      if window.now >= settles or newest_end <= window.horizon then
        return newest_end, 0, settles
      end
      local place, entry_end, total_before, total_after = lost, element(key, lost)
      if entry_end and entry_end <= window.horizon then
        place, entry_end, total_before, total_after = first_behind(key, lost, window.horizon, 0)
      end
      if not entry_end or total_before > after then
        return
      end
      gone[key] = place
      first_end[key], first_before[key], first_after[key] = entry_end, total_before, total_after
      return newest_end, after - total_before, settles
    end

    local function end_with(key, units)
      local least = first_before[key] + units
      if first_after[key] >= least then
        return first_end[key]
      end
      local _, entry_end = first_behind(key, gone[key], window.horizon, least)
      return entry_end
    end

    -- Drops all elements but so many.
    local function keep(key, count)
      return call('LTRIM', KEYS[key], -count, '-1')
    end

    -- Writes what counts anew, with totals from 0 on. It happens once in 2^53 units.
    local function restart(key)
      local values = call('LRANGE', KEYS[key], tostring(gone[key]), '-1')
      local base, total = first_before[key], last_after[key] - first_before[key] + window.added[key]
      for index, value in ipairs(values) do
        local entry_end, before, after, settles = unpack_struct(ELEMENT, value)
        values[index] = pack(ELEMENT, entry_end, before - base, after - base, settles, 0)
      end
      if window.opened[key] then
        local before = total - window.added[key]
        values[#values + 1] = newest_element(key, window.newest[key], before, total, window.settled[key], 0)
      else
        local before = last_before[key] - base
        values[#values] = newest_element(key, window.newest[key], before, total, window.settled[key], 0)
      end
      local written = call('RPUSH', KEYS[key], unpack(values))
      return type(written) == 'table' and written or keep(key, #values)
    end

    -- Where Redis is short of memory it refuses what may add to a list, but nothing once something is written: so
    -- what is dropped goes last.
    local function write(key)
      if window.added[key] == 0 and not window.rebased[key] and window.old_newest[key] > 0 then
        -- Nothing has been charged: what does not count now may count again, under other numbers.
        local newest_end, settles = window.old_newest[key], window.old_settled[key]
        local value = newest_element(key, newest_end, last_before[key], last_after[key], settles, last_lost[key])
        return call('LSET', KEYS[key], '-1', value)
      end
      local place = gone[key]
      if window.rebased[key] or not place then
        -- Without any entry, what stands behind the state has one that counts for nobody.
        local entry_end, settles = math.max(window.newest[key], 1), math.max(window.settled[key], 1)
        local value = newest_element(key, entry_end, 0, window.used[key], settles, 0)
        local written = call('RPUSH', KEYS[key], value)
        if type(written) == 'table' or window.old_newest[key] == 0 then
          return written
        end
        return keep(key, 1)
      end
      local before, after = last_before[key], last_after[key]
      local total = after + window.added[key]
      if total >= LIMIT then
        return restart(key)
      end
      local drops = place >= DROP_EVERY
      local written
      local lost = drops and 0 or place
      if window.opened[key] then
        local value = newest_element(key, window.newest[key], after, total, window.settled[key], lost)
        written = call('RPUSH', KEYS[key], value)
      else
        local value = newest_element(key, window.newest[key], before, total, window.settled[key], lost)
        written = call('LSET', KEYS[key], '-1', value)
      end
      if not drops or (type(written) == 'table' and written.err) then
        return written
      end
      return call('LTRIM', KEYS[key], tostring(place), '-1')
    end

    -- All totals from there on are less by the units.
    local function give_back(key, units, entry_end)
      local place, found_end, before, after = first_behind(key, gone[key] - 1, entry_end - 1, 0)
      if found_end ~= entry_end then
        return 0
      end
      local back = math.min(units, after - before)
      for index, value in ipairs(call('LRANGE', KEYS[key], tostring(place), '-1')) do
        local e, b, a, s, l = unpack_struct(ELEMENT, value)
        local changed = pack(ELEMENT, e, index > 1 and b - back or b, a - back, s, l)
        call('LSET', KEYS[key], tostring(place + index - 1), changed .. string.sub(value, SIZE + 1))
      end
      return back
    end

    return read, end_with, write, give_back
  end)
end
