-- The twin of src/algorithm/fixed_window.rs and of src/algorithm/calendar_window.rs.
--
-- A value is the window's end and its count. Where both fit, it is one integer,
-- (end - EPOCH) * 8192 + count, which INCR moves on; otherwise it is two doubles. Ends are in
-- milliseconds. From the Unix epoch, end * 8192 would pass 2^53 and lose the count's last bit; from 2020
-- it fits until 2054.
--
-- A policy is the limit, the window in microseconds, and 1 if a refused call uses up the window. That of a
-- calendar has 0 for its window; then follow its horizon in microseconds, and BOUNDARIES of its boundaries around
-- the time, in milliseconds. A state's two numbers are the window's end and its count; the quick ways
-- tell a packed window as one number, which they make negative.

local function fixed_window(round, source, at)
  local EPOCH, COUNTS, SPAN = 1577836800000, 8192, 1099511627776
  local ADMITTED, REFUSED, IMPOSSIBLE, UNREADABLE = round.ADMITTED, round.REFUSED, round.IMPOSSIBLE, round.UNREADABLE
  local now = round.now
  local limit, counts_refused, new_end, latest_end, after = window_numbers(now, source, at)
  local dirty, how, mark = new_marks()

  -- By key: the window. Nil is a value that cannot be read.
  local ends, counts = {}, {}
  -- By key: whether there is a value, and whether it is packed.
  local stored, packed = {}, {}
  -- By key: the units that are added to the window that is stored.
  local more = {}

  -- A window that ends later than any can now was written by a longer window, or the clock has stepped back: its end
  -- moves to that of a window opened now, and its count stays.
  local function keep(key, window_end, count)
    if window_end > latest_end then
      window_end = new_end
      mark(key, 2)
    end
    -- A window from which all has been given back is none.
    ends[key], counts[key] = count > 0 and window_end or 0, count
  end

  local function read(key, value)
    if not value then
      ends[key], counts[key] = 0, 0
      return
    end
    stored[key] = true
    -- A packed end later than the first day of 2020 has 12 digits or more.
    local number = #value >= 12 and #value <= 16 and tonumber(value)
    if number and number >= 0 and number % 1 == 0 then
      local count = number % COUNTS
      packed[key] = true
      keep(key, (number - count) / COUNTS + EPOCH, count)
    elseif #value == 16 then
      local window_end, count = struct.unpack('>dd', value)
      if whole(window_end) and whole(count) then
        keep(key, window_end, count)
      end
    end
  end

  local function admits(key, cost)
    local window_end = ends[key]
    if not window_end then
      return UNREADABLE
    end
    if cost > limit then
      return IMPOSSIBLE
    end
    if cost > 0 and window_end * 1000 > now and counts[key] + cost > limit then
      return REFUSED
    end
    return ADMITTED
  end

  local function add(key, cost)
    counts[key] = counts[key] + cost
    more[key] = (more[key] or 0) + cost
    mark(key, 1)
  end

  local function charge(key, cost)
    if ends[key] * 1000 <= now then
      ends[key], counts[key] = new_end, cost
      mark(key, stored[key] and 2 or 3)
    else
      add(key, cost)
    end
  end

  local function refuse(key)
    local left = limit - counts[key]
    if counts_refused == 1 and left > 0 then
      add(key, left)
    end
  end

  -- The window is the same if it ends when the decision said that it would.
  local function refund(key, units, _, reset_at)
    if ends[key] * 1000 <= now or ends[key] ~= math.floor(reset_at / 1000) then
      return 0
    end
    local back = math.min(units, counts[key])
    if back < counts[key] then
      add(key, -back)
    elseif back > 0 then
      ends[key], counts[key] = 0, 0
      mark(key, 2)
    end
    return back
  end

  local function touch(key)
    mark(key, stored[key] and 2 or 3)
  end

  local function tell(key)
    return struct.pack('>dd', ends[key] or 0, counts[key] or 0)
  end

  local function save_window(key)
    local window_end, count = ends[key], counts[key]
    if how[key] == 1 and packed[key] and count < COUNTS and more[key] and not round.extras[key] then
      local written = redis.pcall('INCRBY', KEYS[key], more[key])
      if type(written) ~= 'number' then
        return written
      end
      return
    end
    local since = window_end - EPOCH
    local packs = count < COUNTS and since > 86400000 and since < SPAN
    local value = packs and string.format('%.0f', since * COUNTS + count) or struct.pack('>dd', window_end, count)
    -- One millisecond more: Redis's clock for expiry may lag behind this script's.
    local ttl = window_end - math.floor(now / 1000) + 1
    return save(round, key, how[key], value, ttl)
  end

  return {
    after = after, strings = true, stale = not new_end, dirty = dirty, how = how, read = read, admits = admits,
    charge = charge, refuse = refuse, refund = refund, tell = tell, touch = touch, save = save_window,
  }
end
