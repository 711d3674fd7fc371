-- What a key has beside its state: the end of a block, and numbers of its own with their end.
--
-- It stands behind the state in the same value (a list has it in the newest element, a log in the newest member, a hash
-- in a field): MARK, the block's end and the numbers' end in microseconds, how many numbers there are, the numbers as
-- doubles, zeros, its own length in two bytes, and MARK. It is at least LEAST bytes long, so that no state is as long as
-- a state with it; and no number goes on with a MARK, as tonumber and Redis read it.

local function no_extras()
  return { blocked = 0, ends = 0, numbers = '' }
end

-- Splits a value into the state and what stands behind it, if anything does.
local function split(value)
  local MARK, LEAST = 88, 48
  local length = #value
  if length < LEAST or string.byte(value, length) ~= MARK then
    return value
  end
  local size = struct.unpack('>I2', value, length - 2)
  if size < LEAST or size > length then
    return value
  end
  local blocked, ends, count, at = struct.unpack('>ddI1', value, length - size + 2)
  if not (whole(blocked) and whole(ends)) or at + count * 8 > length - 2 then
    return value
  end
  local extras = { blocked = blocked, ends = ends, numbers = string.sub(value, at, at + count * 8 - 1) }
  return string.sub(value, 1, length - size), extras
end

-- What stands behind a key's state now: nothing if all of it has ended.
local function extras_text(round, key)
  local extras = round.extras[key]
  if not extras or (extras.blocked <= round.now and extras.ends <= round.now) then
    return ''
  end
  local numbers, ends = extras.numbers, extras.ends
  if ends <= round.now then
    numbers, ends = '', 0
  end
  local text = 'X' .. struct.pack('>ddI1', extras.blocked, ends, #numbers / 8) .. numbers
  text = text .. string.rep('\0', math.max(0, 45 - #text))
  return text .. struct.pack('>I2', #text + 3) .. 'X'
end

-- For how many milliseconds a key must be kept for it.
local function extras_ttl(round, key)
  local extras = round.extras[key]
  if not extras then
    return 0
  end
  -- One millisecond more: Redis's clock for expiry may lag behind this script's.
  local last = math.max(extras.blocked, extras.ends) - round.now
  return last > 0 and math.ceil(last / 1000) + 1 or 0
end

-- Writes the value of a key that has been marked, if it is a string, with what stands behind it, and with a TTL in
-- milliseconds; answers with what Redis said if it was not written.
local function save(round, key, how, value, ttl)
  local written
  if round.extras[key] then
    value, ttl = value .. extras_text(round, key), math.max(ttl, extras_ttl(round, key))
  end
  if ttl <= 0 then
    -- The key is as if never used.
    if how == 3 then
      return
    end
    written = redis.pcall('UNLINK', KEYS[key])
    if type(written) ~= 'number' then
      return written
    end
    return
  end
  -- As text: Redis 7.2 makes 1e+8 of the number 100000000, and takes that for no integer.
  ttl = how ~= 1 and string.format('%.0f', ttl)
  if how == 1 then
    written = redis.pcall('SET', KEYS[key], value, 'KEEPTTL')
  elseif how == 2 then
    written = redis.pcall('SET', KEYS[key], value, 'PX', ttl)
  else
    -- MGET cannot tell a missing key from one of another type: that one must not be overwritten.
    written = redis.pcall('SET', KEYS[key], value, 'PX', ttl, 'NX')
  end
  if not written or written.err then
    return written
  end
end
