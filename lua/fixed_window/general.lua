-- The twin of src/algorithm/fixed_window.rs and src/algorithm/calendar_window.rs.
--
-- A value is the window's end, in milliseconds, and its count. If both fit, the value is packed
-- into one integer, (end - VALUE_EPOCH_MS) * VALUE_COUNTS + count, so that INCR can charge it. Otherwise it is two
-- doubles. The epoch is 2020, so that packed values fit until 2054; from the Unix epoch, end * VALUE_COUNTS
-- would pass 2^53 and lose the last bit of the count.
--
-- A policy is the limit, the window in microseconds, and 1 if a refused call uses up the window. A
-- calendar has 0 as its window, followed by its horizon in microseconds and the eight window
-- boundaries around the time, in milliseconds.
--
-- A state in the reply is the window's end and its count. Fast paths report a packed window as one
-- number, negated.

local function fixed_window(context, source, at)
  local SPAN = 1099511627776 -- 2^53 / VALUE_COUNTS
  local now, request = context.now, source
  --@include fixed_window/policy.lua
  -- By key: whether there is a value.
  local stored = {}
  local dirty_keys, write_modes, mark_dirty, mark_rewrite = new_dirty_keys(stored)

  -- By key: the window; nil if the value cannot be read.
  local ends, counts = {}, {}
  -- By key: whether the value is packed.
  local packed = {}
  -- By key: the units added to the stored window.
  local added = {}
  -- By key: the stored end of a window that ends too late, until it is repaired.
  local kept_ends = {}

  -- Sets the window of a key. A window that ends later than any window can end now was written by a
  -- longer window, or before the clock stepped back. It gets the end of a window opened now, and
  -- keeps its count.
  local function set_window(key, window_end, count)
    if window_end > latest_end then
      kept_ends[key] = window_end
      window_end = new_end
    end
    -- If all units were refunded, there is no window.
    ends[key], counts[key] = count > 0 and window_end or 0, count
  end

  local function read(key, value)
    if not value then
      ends[key], counts[key] = 0, 0
      return
    end
    stored[key] = true
    -- A packed end after the first day of 2020 has 12 digits or more.
    local number = #value >= 12 and #value <= 16 and tonumber(value)
    if number and number >= 0 and number % 1 == 0 then
      local count = number % VALUE_COUNTS
      packed[key] = true
      set_window(key, (number - count) / VALUE_COUNTS + VALUE_EPOCH_MS, count)
    elseif #value == 16 then
      local window_end, count = struct.unpack('>dd', value)
      if is_integer(window_end) and is_integer(count) then
        set_window(key, window_end, count)
      end
    end
  end

  local function repair(key)
    local window_end = kept_ends[key]
    if window_end then
      kept_ends[key] = nil
      mark_dirty(key, 2)
      return window_end * 1000
    end
  end

  local function outcome_of(key, cost)
    local window_end = ends[key]
    if not window_end then
      return OUTCOME_UNREADABLE
    end
    if cost > limit then
      return OUTCOME_IMPOSSIBLE
    end
    if cost > 0 and window_end * 1000 > now and counts[key] + cost > limit then
      return OUTCOME_REFUSED
    end
    return OUTCOME_ADMITTED
  end

  local function add(key, cost)
    counts[key] = counts[key] + cost
    added[key] = (added[key] or 0) + cost
    mark_dirty(key, 1)
  end

  local function charge(key, cost)
    if ends[key] * 1000 <= now then
      ends[key], counts[key] = new_end, cost
      mark_rewrite(key)
    else
      add(key, cost)
    end
  end

  local function record_refused(key)
    local rest = limit - counts[key]
    if rest > 0 then
      add(key, rest)
    end
  end

  -- The window is the one that was charged if its end is the decision's reset time. If no early unit
  -- of a fixed window may be left, the window begins anew now: see src/algorithm/fixed_window.rs.
  local function refund(key, units, taken)
    if ends[key] * 1000 <= now or ends[key] ~= math.floor(taken.reset_at / 1000) + taken.moved then
      return 0
    end
    local refunded = math.min(units, counts[key])
    if refunded == 0 then
      return 0
    end
    if refunded == counts[key] then
      ends[key], counts[key] = 0, 0
      mark_dirty(key, 2)
      return refunded, nil, 0, 0
    end
    add(key, -refunded)
    local early, shift = taken.early, 0
    if window_micros > 0 and math.ceil((taken.at + window_micros) / 1000) <= ends[key] then
      early = math.max(early - refunded, 0)
      if early == 0 and taken.kept == 0 and new_end > ends[key] then
        shift, early = new_end - ends[key], counts[key]
        ends[key] = new_end
        mark_dirty(key, 2)
      end
    end
    return refunded, nil, shift, early
  end

  local function reset_at(key)
    return (kept_ends[key] or ends[key] or 0) * 1000
  end

  local function encode_state(key)
    return struct.pack('>dd', ends[key] or 0, counts[key] or 0)
  end

  local function write_window(key)
    local window_end, count = kept_ends[key] or ends[key], counts[key]
    if write_modes[key] == 1 and packed[key] and count < VALUE_COUNTS and added[key] and not context.key_metadata[key] then
      local reply = redis.pcall('INCRBY', KEYS[key], added[key])
      if type(reply) ~= 'number' then
        return reply
      end
      return
    end
    local end_since_epoch = window_end - VALUE_EPOCH_MS
    local is_packable = count < VALUE_COUNTS and end_since_epoch > 86400000 and end_since_epoch < SPAN
    local value = is_packable and string.format('%.0f', end_since_epoch * VALUE_COUNTS + count)
      or struct.pack('>dd', window_end, count)
    -- One more millisecond, because Redis's clock for expiry may be behind the script's.
    local ttl = window_end - math.floor(now / 1000) + 1
    return write_string(context, key, write_modes[key], value, ttl)
  end

  return {
    after = after, is_string = true, is_stale = not new_end, dirty_keys = dirty_keys, write_modes = write_modes,
    read = read, repair = repair, kept = kept_ends, outcome_of = outcome_of, charge = charge, refund = refund,
    record_refused = counts_refused == 1 and record_refused or nil,
    ends_on_milliseconds = true, reset_at = reset_at, encode_state = encode_state, mark_rewrite = mark_rewrite,
    write = write_window,
  }
end
