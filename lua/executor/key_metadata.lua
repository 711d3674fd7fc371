-- What a key has beside its state: the end of a block, and numbers of its own with their end.
--
-- It stands behind the state in the same value (a list has it in the newest element, a log in the newest member, a hash
-- in a field): MARK, the block's end and the numbers' end in microseconds, how many numbers there are, the numbers as
-- doubles, zeros, its own length in two bytes, and MARK. It is at least LEAST bytes long, so that no state is as long as
-- a state with it; and no number goes on with a MARK, as tonumber and Redis read it.

local function empty_metadata()
  return { blocked_until = 0, override_until = 0, override_numbers = '' }
end

-- Splits a value into the state and what stands behind it, if anything does.
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

-- What stands behind a key's state now: nothing if all of it has ended.
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
  text = text .. string.rep('\0', math.max(0, 45 - #text))
  return text .. struct.pack('>I2', #text + 3) .. 'X'
end

-- For how many milliseconds a key must be kept for it.
local function metadata_ttl(context, key)
  local metadata = context.key_metadata[key]
  if not metadata then
    return 0
  end
  -- One millisecond more: Redis's clock for expiry may lag behind this script's.
  local remaining = math.max(metadata.blocked_until, metadata.override_until) - context.now
  return remaining > 0 and math.ceil(remaining / 1000) + 1 or 0
end

-- Writes the value of a key that has been marked, if it is a string, with what stands behind it, and with a TTL in
-- milliseconds; answers with what Redis said if it was not written.
local function write_string(context, key, write_mode, value, ttl)
  local reply
  if context.key_metadata[key] then
    value, ttl = value .. encode_metadata(context, key), math.max(ttl, metadata_ttl(context, key))
  end
  if ttl <= 0 then
    -- The key is as if never used.
    if write_mode == 3 then
      return
    end
    reply = redis.pcall('UNLINK', KEYS[key])
    if type(reply) ~= 'number' then
      return reply
    end
    return
  end
  -- As text: Redis 7.2 makes 1e+8 of the number 100000000, and takes that for no integer.
  ttl = write_mode ~= 1 and string.format('%.0f', ttl)
  if write_mode == 1 then
    reply = redis.pcall('SET', KEYS[key], value, 'KEEPTTL')
  elseif write_mode == 2 then
    reply = redis.pcall('SET', KEYS[key], value, 'PX', ttl)
  else
    -- MGET cannot tell a missing key from one of another type: that one must not be overwritten.
    reply = redis.pcall('SET', KEYS[key], value, 'PX', ttl, 'NX')
  end
  if not reply or reply.err then
    return reply
  end
end
