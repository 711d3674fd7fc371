-- The twin of src/algorithm/sliding_counter.rs.
--
-- A value is four doubles: the end of a window of the epoch's grid, the units admitted in it, the
-- units admitted in the previous window, and the length of both windows. Times are in milliseconds.
-- All numbers are whole. A count times the length is below 2^53, so division of the product is
-- exact.
--
-- A policy is the limit and the window's length. A state in the reply is the first three numbers of
-- the value; the length follows in the further doubles if it differs from the policy's.

-- The end of the grid's open window.
local function end_of_window(now_ms, length)
  return now_ms - now_ms % length + length
end

local function sliding_counter(context, source, at)
  local LIMIT, MAX_LENGTH = 9007199254740992, 4503599627370 -- 2^53; 2^52 microseconds in milliseconds
  local pack, unpack_struct = struct.pack, struct.unpack
  -- States change only at whole milliseconds.
  local now_ms = (context.now - context.now % 1000) / 1000
  local limit, window, after = unpack_struct('>dd', source, at)
  -- By key: the value, if there is one.
  local stored = {}
  local dirty_keys, write_modes, mark_dirty, mark_rewrite = new_dirty_keys(stored)

  -- By key: the state, and its window's length; nil if the value cannot be read.
  local ends, current_units, previous_units, lengths = {}, {}, {}, {}
  -- By key: a stored state that a clock step left too far ahead, until it is repaired.
  local kept_states = {}
  -- The state after the last admitted call, and its write mode.
  local next_end, next_current, next_previous, next_write_mode

  local function read(key, value)
    stored[key] = value
    if not value then
      ends[key], current_units[key], previous_units[key], lengths[key] = 0, 0, 0, window
      return
    end
    if #value ~= 32 then
      return
    end
    local window_end, current, previous, length = unpack_struct('>dddd', value)
    if
      not (is_integer(window_end) and is_integer(current) and is_integer(previous) and is_integer(length))
      or length < 1 or length > MAX_LENGTH or window_end % length ~= 0
      or current * length >= LIMIT or previous * length >= LIMIT
    then
      return
    end
    if window_end > now_ms + 2 * length then
      -- The clock has stepped back: the open window is fully used, as far as a value can count.
      kept_states[key] = {
        window_end, current, previous,
        reset_at = (current > 0 and window_end + length or previous > 0 and window_end or 0) * 1000,
      }
      local max_product = LIMIT - 1
      local full_count = math.min(limit, (max_product - max_product % length) / length)
      window_end, current, previous = end_of_window(now_ms, length), math.max(current, full_count), 0
    end
    ends[key], current_units[key], previous_units[key], lengths[key] = window_end, current, previous, length
  end

  local function repair(key)
    local kept = kept_states[key]
    if kept then
      kept_states[key] = nil
      mark_dirty(key, 2)
      return kept.reset_at
    end
  end

  local function outcome_of(key, cost)
    local window_end = ends[key]
    if not window_end then
      return OUTCOME_UNREADABLE
    end
    if cost == 0 then
      return OUTCOME_ADMITTED
    end
    if cost > limit then
      return OUTCOME_IMPOSSIBLE
    end
    local current, previous, length = current_units[key], previous_units[key], lengths[key]
    local rolls = now_ms >= window_end
    if rolls then
      local open_end = end_of_window(now_ms, length)
      current, previous = 0, open_end - window_end == length and current or 0
      window_end = open_end
    end
    local product = previous * math.min(window_end - now_ms, length)
    local rest = product % length
    local used = current + (product - rest) / length
    if rest > 0 then
      used = used + 1
    end
    if used + cost > limit then
      return OUTCOME_REFUSED
    end
    if length ~= window then
      next_end, next_current, next_previous, next_write_mode = end_of_window(now_ms, window), used + cost, 0, 2
    else
      next_end, next_current, next_previous = window_end, current + cost, previous
      next_write_mode = not stored[key] and 3 or rolls and 2 or 1
    end
    return OUTCOME_ADMITTED
  end

  local function reset_at(key)
    if kept_states[key] then
      return kept_states[key].reset_at
    end
    if (current_units[key] or 0) > 0 then
      return (ends[key] + lengths[key]) * 1000
    end
    return (previous_units[key] or 0) > 0 and ends[key] * 1000 or 0
  end

  local function charge(key)
    if lengths[key] ~= window then
      renumber(context, key, reset_at(key))
    end
    ends[key], current_units[key], previous_units[key], lengths[key] = next_end, next_current, next_previous, window
    mark_dirty(key, next_write_mode)
  end

  -- Only units that were taken in the open window are refunded.
  local function refund(key, units, taken)
    local window_end, length, at = ends[key], lengths[key], taken.at
    local at_ms = (at - at % 1000) / 1000
    if
      length ~= window or window_end ~= end_of_window(now_ms, window)
      or window_end ~= end_of_window(at_ms, window)
    then
      return 0
    end
    local refunded = math.min(units, current_units[key])
    current_units[key] = current_units[key] - refunded
    mark_dirty(key, 1)
    return refunded
  end

  local function encode_state(key)
    local length = lengths[key]
    return pack('>ddd', ends[key] or 0, current_units[key] or 0, previous_units[key] or 0),
      length and length ~= window and pack('>d', length) or nil
  end

  local function write_counter(key)
    local kept, length = kept_states[key], lengths[key]
    local window_end, current, previous = ends[key], current_units[key], previous_units[key]
    if kept then
      window_end, current, previous = unpack(kept)
    end
    local state = pack('>ddd', window_end, current, previous)
    if write_modes[key] == 1 and not context.key_metadata[key] then
      -- The window is unchanged, and so is the TTL.
      local reply = redis.pcall('SETRANGE', KEYS[key], '0', state)
      if reply ~= 32 then
        return reply
      end
      return
    end
    -- Admitted units count until the end of the next window. One more millisecond, because Redis's
    -- clock for expiry may be behind the script's.
    return write_string(context, key, write_modes[key], state .. pack('>d', length), window_end + length - now_ms + 1)
  end

  return {
    after = after, is_string = true, dirty_keys = dirty_keys, write_modes = write_modes, read = read,
    repair = repair, kept = kept_states, outcome_of = outcome_of, charge = charge, refund = refund, reset_at = reset_at,
    encode_state = encode_state, mark_rewrite = mark_rewrite, write = write_counter,
  }
end
