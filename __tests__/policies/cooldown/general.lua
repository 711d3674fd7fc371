-- The twin of the algorithm in Rust.
--
-- A value and a state in the reply are two doubles: the end of the pause, in milliseconds, and the units
-- of the call before it. A policy is the limit and the pause in microseconds.

local function cooldown(context, source, at)
  local now = context.now
  local limit, pause, after = struct.unpack('>dd', source, at)
  local new_end = math.ceil((now + pause) / 1000)
  local dirty_keys, write_modes, mark_dirty = new_dirty_keys()
  -- By key: the end and the units; nil if the value cannot be read.
  local ends, counts = {}, {}
  -- By key: whether there is a value, and the reset time of a value that a clock step left too far ahead.
  local stored, rewritten = {}, {}

  local function read(key, value)
    local pause_end, count = 0, 0
    if value then
      stored[key] = true
      if #value ~= 16 then
        return
      end
      pause_end, count = struct.unpack('>dd', value)
      if not (is_integer(pause_end) and is_integer(count)) then
        return
      end
    end
    if pause_end > new_end then
      rewritten[key] = pause_end * 1000
      pause_end = new_end
      mark_dirty(key, 2)
    end
    ends[key], counts[key] = pause_end, count
  end

  local function outcome_of(key, cost)
    if not ends[key] then
      return OUTCOME_UNREADABLE
    end
    if cost > limit then
      return OUTCOME_IMPOSSIBLE
    end
    return cost > 0 and ends[key] * 1000 > now and OUTCOME_REFUSED or OUTCOME_ADMITTED
  end

  local function mark_rewrite(key)
    mark_dirty(key, stored[key] and 2 or 3)
  end

  local function charge(key, cost)
    ends[key], counts[key] = new_end, cost
    mark_rewrite(key)
  end

  local function refund()
    return 0
  end

  local function reset_at(key)
    return (ends[key] or 0) * 1000
  end

  local function encode_state(key)
    return struct.pack('>dd', ends[key] or 0, counts[key] or 0)
  end

  local function write(key)
    local ttl = ends[key] - math.floor(now / 1000) + 1
    return write_string(context, key, write_modes[key], encode_state(key), ttl)
  end

  return {
    after = after, is_string = true, dirty_keys = dirty_keys, write_modes = write_modes, read = read,
    outcome_of = outcome_of, charge = charge, refund = refund, ends_on_milliseconds = true, reset_at = reset_at,
    rewritten = rewritten, encode_state = encode_state, mark_rewrite = mark_rewrite, write = write,
  }
end
