-- Key metadata: the end of a block, an override with its end, and the strikes and bans of the key
-- (src/policy/ban.rs is the twin).
--
-- The metadata is stored after the state in the same value. A list has it in its newest element, a
-- log in its newest member, a hash in a field. Layout:
--
-- one byte       MARK
-- eight doubles  the end of the block, the end of the override, the number of strikes, the end of
--                their window, the number of the latest ban's length, the end of that ban, the time
--                from which it no longer counts, and the time from which the next refusal is no
--                strike; times are in microseconds
-- one byte       the number of doubles in the override
-- doubles        the override: the first numbers of a policy
-- two bytes      the length of the metadata
-- one byte       MARK
--
-- The metadata is at least VALUE_METADATA_MIN_SIZE bytes long, so that a state with metadata is longer than any
-- state alone. MARK is 'X', so that neither `tonumber` nor Redis reads a value with metadata as a
-- number.

local function empty_metadata()
  return {
    blocked_until = 0, override_until = 0, override_numbers = '',
    strikes = 0, window_end = 0, step = 0, banned_until = 0, forget_at = 0, excused_from = 0,
  }
end

-- The end of a duration from now on. The twin of `end_of` in src/time.rs.
local function end_of(context, duration)
  return math.min(context.now + duration, 9007199254740991)
end

-- The time from which metadata has no effect.
local function end_of_metadata(metadata)
  return math.max(metadata.blocked_until, metadata.override_until, metadata.window_end, metadata.forget_at)
end

-- Drops the parts of metadata that have ended. Returns whether there were any.
local function drop_ended(context, metadata)
  local now, has_ended = context.now, false
  local function drop(end_name, ...)
    local end_at = metadata[end_name]
    if end_at > 0 and end_at <= now then
      has_ended, metadata[end_name] = true, 0
      for _, name in ipairs({ ... }) do
        metadata[name] = 0
      end
    end
  end
  drop('blocked_until')
  drop('override_until')
  drop('window_end', 'strikes')
  drop('forget_at', 'step', 'banned_until')
  if metadata.override_until == 0 then
    metadata.override_numbers = ''
  end
  if metadata.window_end == 0 and metadata.forget_at == 0 then
    metadata.excused_from = 0
  end
  return has_ended
end

-- Splits a value into the state and its metadata; the metadata is nil if there is none.
local function split_metadata(value)
  local MARK, MIN_LENGTH = 88, VALUE_METADATA_MIN_SIZE
  local length = #value
  if length < MIN_LENGTH or string.byte(value, length) ~= MARK then
    return value
  end
  local size = struct.unpack('>I2', value, length - 2)
  if size < MIN_LENGTH or size > length then
    return value
  end
  local blocked_until, override_until, strikes, window_end, step, banned_until, forget_at, excused_from, count, at =
    struct.unpack('>ddddddddI1', value, length - size + 2)
  if
    not (
      is_integer(blocked_until) and is_integer(override_until) and is_integer(strikes) and is_integer(window_end)
      and is_integer(step) and is_integer(banned_until) and is_integer(forget_at) and is_integer(excused_from)
    ) or at + count * 8 > length - 2
  then
    return value
  end
  local metadata = {
    blocked_until = blocked_until, override_until = override_until,
    override_numbers = string.sub(value, at, at + count * 8 - 1),
    strikes = strikes, window_end = window_end, step = step, banned_until = banned_until, forget_at = forget_at,
    excused_from = excused_from,
  }
  return string.sub(value, 1, length - size), metadata
end

-- The metadata of a key as text; empty if it has no effect any more.
local function encode_metadata(context, key)
  local metadata = context.key_metadata[key]
  if not metadata or end_of_metadata(metadata) <= context.now then
    return ''
  end
  drop_ended(context, metadata)
  local override_numbers = metadata.override_numbers
  local text = 'X' .. struct.pack(
    '>ddddddddI1', metadata.blocked_until, metadata.override_until, metadata.strikes, metadata.window_end,
    metadata.step, metadata.banned_until, metadata.forget_at, metadata.excused_from, #override_numbers / 8
  ) .. override_numbers
  return text .. struct.pack('>I2', #text + 3) .. 'X'
end

-- How long a key must be kept for its metadata, in milliseconds.
local function metadata_ttl(context, key)
  local metadata = context.key_metadata[key]
  if not metadata then
    return 0
  end
  -- One more millisecond, because Redis's clock for expiry may be behind the script's.
  local remaining = end_of_metadata(metadata) - context.now
  return remaining > 0 and math.ceil(remaining / 1000) + 1 or 0
end

-- The step of the ban in force on a key: the number of its length. Nil without a ban.
local function ban_step(context, metadata)
  local is_ban = metadata.step > 0 and metadata.blocked_until == metadata.banned_until
  return is_ban and metadata.blocked_until > context.now and metadata.step or nil
end

-- Counts a refusal by the policy with this number as a strike against its key, if the group's rule
-- for bans applies to the policy and the caller has not waited. It may ban the key. The rule is at
-- `context.ban` of the request (see dispatch/batch.lua). Returns whether the metadata has changed.
local function strike(context, policy, key, is_overridden)
  local MAX_SAFE = 9007199254740991
  local policies, after, within, forget, lengths = struct.unpack('>I1ddd', context.request, context.ban)
  if math.floor(policies / 2 ^ (policy - 1)) % 2 == 0 then
    return false
  end
  local metadata = context.key_metadata[key] or empty_metadata()
  context.key_metadata[key] = metadata
  local is_excused = math.max(metadata.window_end, metadata.forget_at) > context.now
    and metadata.excused_from <= context.now
  metadata.excused_from = is_overridden and metadata.override_until or MAX_SAFE
  if is_excused then
    return true
  end
  if metadata.window_end <= context.now then
    metadata.strikes, metadata.window_end = 0, MAX_SAFE
  end
  metadata.strikes = metadata.strikes + 1
  metadata.window_end = math.min(metadata.window_end, context.now + within)
  if metadata.strikes >= after then
    local size = string.byte(context.request, context.ban - 1)
    -- The policies and three doubles take 25 bytes.
    local length_count = (size - 25) / 8
    local step = math.min((metadata.forget_at > context.now and metadata.step or 0) + 1, length_count)
    local length = struct.unpack('>d', context.request, lengths + (step - 1) * 8)
    local banned_until = math.min(context.now + length, MAX_SAFE)
    metadata.strikes, metadata.window_end, metadata.step = 0, 0, step
    metadata.blocked_until, metadata.banned_until = banned_until, banned_until
    metadata.forget_at = math.min(banned_until + forget, MAX_SAFE)
  end
  return true
end

-- Writes the value of a dirty key that is a string, with its metadata, and with a TTL in
-- milliseconds. Returns Redis's error if that failed.
local function write_string(context, key, write_mode, value, ttl)
  local reply
  if context.key_metadata[key] then
    value, ttl = value .. encode_metadata(context, key), math.max(ttl, metadata_ttl(context, key))
  end
  if ttl <= 0 then
    -- The key is fresh.
    if write_mode == 3 then
      return
    end
    write_mode, ttl = 2, 1
  end
  -- As text: Redis 7.2 prints the number 100000000 as 1e+8, and rejects that as an integer.
  ttl = write_mode ~= 1 and string.format('%.0f', ttl)
  if write_mode == 1 then
    reply = redis.pcall('SET', KEYS[key], value, 'KEEPTTL')
  elseif write_mode == 2 then
    reply = redis.pcall('SET', KEYS[key], value, 'PX', ttl)
  else
    -- NX, because MGET returns nil also for a key of another type, which must not be overwritten.
    reply = redis.pcall('SET', KEYS[key], value, 'PX', ttl, 'NX')
  end
  if not reply or reply.err then
    return reply
  end
end
