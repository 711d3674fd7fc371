-- Key metadata: the end of a block, and an override with its end.
--
-- The metadata is stored after the state in the same value. A list has it in its newest element, a
-- log in its newest member, a hash in a field. Layout:
--
-- one byte     MARK
-- two doubles  the end of the block and the end of the override, in microseconds
-- one byte     the number of doubles in the override
-- doubles      the override: the first numbers of a policy
-- zeros        padding
-- two bytes    the length of the metadata
-- one byte     MARK
--
-- The metadata is at least VALUE_METADATA_MIN_SIZE bytes long, so that a state with metadata is longer than any
-- state alone. MARK is 'X', so that neither `tonumber` nor Redis reads a value with metadata as a
-- number.

local function empty_metadata()
  return { blocked_until = 0, override_until = 0, override_numbers = '' }
end

-- Splits a value into the state and its metadata; the metadata is nil if there is none.
local function split_metadata(value)
  local MARK, MIN_LENGTH = 88, 48
  local length = #value
  if length < MIN_LENGTH or string.byte(value, length) ~= MARK then
    return value
  end
  local size = struct.unpack('>I2', value, length - 2)
  if size < MIN_LENGTH or size > length then
    return value
  end
  local blocked_until, override_until, count, at = struct.unpack('>ddI1', value, length - size + 2)
  if not (is_integer(blocked_until) and is_integer(override_until)) or at + count * 8 > length - 2 then
    return value
  end
  local metadata = {
    blocked_until = blocked_until, override_until = override_until,
    override_numbers = string.sub(value, at, at + count * 8 - 1),
  }
  return string.sub(value, 1, length - size), metadata
end

-- The metadata of a key as text; empty if block and override have ended.
local function encode_metadata(context, key)
  local metadata = context.key_metadata[key]
  if not metadata or (metadata.blocked_until <= context.now and metadata.override_until <= context.now) then
    return ''
  end
  local override_numbers, override_until = metadata.override_numbers, metadata.override_until
  if override_until <= context.now then
    override_numbers, override_until = '', 0
  end
  local text = 'X' .. struct.pack('>ddI1', metadata.blocked_until, override_until, #override_numbers / 8)
    .. override_numbers
  text = text .. string.rep('\0', math.max(0, VALUE_METADATA_MIN_SIZE - 3 - #text))
  return text .. struct.pack('>I2', #text + 3) .. 'X'
end

-- How long a key must be kept for its metadata, in milliseconds.
local function metadata_ttl(context, key)
  local metadata = context.key_metadata[key]
  if not metadata then
    return 0
  end
  -- One more millisecond, because Redis's clock for expiry may be behind the script's.
  local remaining = math.max(metadata.blocked_until, metadata.override_until) - context.now
  return remaining > 0 and math.ceil(remaining / 1000) + 1 or 0
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
    reply = redis.pcall('UNLINK', KEYS[key])
    if type(reply) ~= 'number' then
      return reply
    end
    return
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
