-- Key metadata: the end of a block, an override with its end, the strikes and bans of the key
-- (src/policy/ban.rs is the twin), its mark (src/policy/mark.rs is the twin), and its owed units
-- (src/policy/owed.rs is the twin).
--
-- The metadata is stored after the state in the same value. A list has it in its newest element, a
-- log in its newest member, a hash in a field. Layout:
--
-- one byte       TAG
-- eight doubles  the end of the block, the end of the override, the number of strikes, the end of
--                their window, the number of the latest ban's length, the end of that ban, the time
--                from which it no longer counts, and the time from which the next refusal is no
--                strike; times are in microseconds
-- one byte       the number of doubles in the override
-- doubles        the override: the first numbers of a policy
-- four doubles   only with a mark or owed units: how far units have moved, the least mark that is
--                valid, the early units of a window, and the end of the mark in microseconds
-- four doubles   only with owed units: the units, the time of the latest payment, the units that an idle
--                period pays, and the length of this period
-- two bytes      the length of the metadata
-- one byte       TAG
--
-- The metadata is at least VALUE_METADATA_MIN_SIZE bytes long, so that a state with metadata is longer than any
-- state alone. TAG is 'X', 'Y' with a mark, or 'Z' with owed units, so that neither `tonumber` nor Redis reads a
-- value with metadata as a number.

local function empty_metadata()
  return {
    blocked_until = 0, override_until = 0, override_numbers = '',
    strikes = 0, window_end = 0, step = 0, banned_until = 0, forget_at = 0, excused_from = 0,
    moved = 0, valid_from = 0, early = 0, marked_until = 0,
    owed = 0, owed_at = 0, owed_capacity = 0, owed_period = 0,
  }
end

-- The end of a duration from now on. The twin of `end_of` in src/time.rs.
local function end_of(context, duration)
  return math.min(context.now + duration, 9007199254740991)
end

-- The time at which idle time has paid all owed units; 0 without any.
local function end_of_owed(metadata)
  if metadata.owed == 0 then
    return 0
  end
  local periods = 1 + math.ceil(metadata.owed / metadata.owed_capacity)
  return math.min(metadata.owed_at + periods * metadata.owed_period, 9007199254740991)
end

local function forget_owed(metadata)
  metadata.owed, metadata.owed_at, metadata.owed_capacity, metadata.owed_period = 0, 0, 0, 0
end

-- The time from which metadata has no effect.
local function end_of_metadata(metadata)
  return math.max(
    metadata.blocked_until, metadata.override_until, metadata.window_end, metadata.forget_at, metadata.marked_until,
    end_of_owed(metadata)
  )
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
  drop('marked_until', 'moved', 'valid_from', 'early')
  if metadata.override_until == 0 then
    metadata.override_numbers = ''
  end
  if metadata.window_end == 0 and metadata.forget_at == 0 then
    metadata.excused_from = 0
  end
  if metadata.owed > 0 and end_of_owed(metadata) <= now then
    has_ended = true
    forget_owed(metadata)
  end
  return has_ended
end

-- Splits a value into the state and its metadata; the metadata is nil if there is none.
local function split_metadata(value)
  local TAG, TAG_WITH_OWED, MIN_LENGTH, PART_LENGTH = 88, 90, VALUE_METADATA_MIN_SIZE, 32
  local length = #value
  local tag = string.byte(value, length)
  if length < MIN_LENGTH or tag < TAG or tag > TAG_WITH_OWED then
    return value
  end
  local size = struct.unpack('>I2', value, length - 2)
  local more_length = (tag - TAG) * PART_LENGTH
  if size < MIN_LENGTH + more_length or size > length then
    return value
  end
  local metadata, count, at = empty_metadata(), nil, nil
  metadata.blocked_until, metadata.override_until, metadata.strikes, metadata.window_end, metadata.step,
    metadata.banned_until, metadata.forget_at, metadata.excused_from, count, at =
    struct.unpack('>ddddddddI1', value, length - size + 2)
  if at + count * 8 + more_length > length - 2 then
    return value
  end
  if tag > TAG then
    metadata.moved, metadata.valid_from, metadata.early, metadata.marked_until =
      struct.unpack('>dddd', value, at + count * 8)
  end
  if tag == TAG_WITH_OWED then
    metadata.owed, metadata.owed_at, metadata.owed_capacity, metadata.owed_period =
      struct.unpack('>dddd', value, at + count * 8 + PART_LENGTH)
  end
  for _, number in pairs(metadata) do
    if number ~= '' and not is_integer(number) then
      return value
    end
  end
  if metadata.owed > 0 and (metadata.owed_capacity == 0 or metadata.owed_period == 0) then
    return value
  end
  metadata.override_numbers = string.sub(value, at, at + count * 8 - 1)
  return string.sub(value, 1, length - size), metadata
end

-- The metadata of a key as text; empty if it has no effect any more.
local function encode_metadata(context, key)
  local metadata = context.key_metadata[key]
  if not metadata or end_of_metadata(metadata) <= context.now then
    return ''
  end
  drop_ended(context, metadata)
  local override_numbers, tag, mark, owed = metadata.override_numbers, 'X', '', ''
  if metadata.marked_until > context.now then
    tag = 'Y'
  end
  if metadata.owed > 0 then
    tag = 'Z'
    owed = struct.pack('>dddd', metadata.owed, metadata.owed_at, metadata.owed_capacity, metadata.owed_period)
  end
  if tag ~= 'X' then
    mark = struct.pack('>dddd', metadata.moved, metadata.valid_from, metadata.early, metadata.marked_until)
  end
  local text = tag .. struct.pack(
    '>ddddddddI1', metadata.blocked_until, metadata.override_until, metadata.strikes, metadata.window_end,
    metadata.step, metadata.banned_until, metadata.forget_at, metadata.excused_from, #override_numbers / 8
  ) .. override_numbers .. mark .. owed
  return text .. struct.pack('>I2', #text + 3) .. tag
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

-- Drops a mark that has ended.
local function drop_ended_mark(context, metadata)
  if metadata.marked_until <= context.now then
    metadata.moved, metadata.valid_from, metadata.early, metadata.marked_until = 0, 0, 0, 0
  end
end

-- Makes a mark last until a time.
local function last_until(metadata, until_time)
  metadata.marked_until = math.max(metadata.marked_until, math.min(until_time, 9007199254740991))
end

-- Makes the units of all earlier decisions on a key come back no more. They last until `until_time`.
local function invalidate(context, key, until_time)
  local metadata = context.key_metadata[key] or empty_metadata()
  context.key_metadata[key] = metadata
  metadata.moved = math.min(metadata.moved + 1, 9007199254740991)
  metadata.valid_from, metadata.early = metadata.moved, 0
  last_until(metadata, until_time)
end

-- Invalidates the units of earlier decisions on a key if they may count, because a call is charged
-- under other numbers than those of the state. The state is fresh from `until_time` on.
local function renumber(context, key, until_time)
  local metadata = context.key_metadata[key]
  if math.max(until_time, metadata and metadata.marked_until or 0) > context.now then
    invalidate(context, key, until_time)
  end
end

-- Makes a mark last as long as the state.
local function extend_mark(context, executor, key)
  local metadata = context.key_metadata[key]
  if metadata and metadata.marked_until > 0 and executor.reset_at then
    last_until(metadata, executor.reset_at(key))
  end
end

-- The step of the ban in force on a key: the number of its length. Nil without a ban.
local function ban_step(context, metadata)
  local is_ban = metadata.step > 0 and metadata.blocked_until == metadata.banned_until
  return is_ban and metadata.blocked_until > context.now and metadata.step or nil
end

-- Counts a refused call as a strike against a key, if the caller has not waited. It may ban the key.
local function strike_key(context, key, is_overridden)
  local MAX_SAFE = 9007199254740991
  local _, _, after, within, forget, lengths = struct.unpack('>I1dddd', context.request, context.ban)
  local metadata = context.key_metadata[key] or empty_metadata()
  context.key_metadata[key] = metadata
  local is_excused = math.max(metadata.window_end, metadata.forget_at) > context.now
    and metadata.excused_from <= context.now
  metadata.excused_from = is_overridden and metadata.override_until or MAX_SAFE
  if is_excused then
    return
  end
  if metadata.window_end <= context.now then
    metadata.strikes, metadata.window_end = 0, MAX_SAFE
  end
  metadata.strikes = metadata.strikes + 1
  metadata.window_end = math.min(metadata.window_end, context.now + within)
  if metadata.strikes >= after then
    local size = string.byte(context.request, context.ban - 1)
    -- The policies and four doubles take 33 bytes.
    local length_count = (size - 33) / 8
    local step = math.min((metadata.forget_at > context.now and metadata.step or 0) + 1, length_count)
    local length = struct.unpack('>d', context.request, lengths + (step - 1) * 8)
    local banned_until = math.min(context.now + length, MAX_SAFE)
    metadata.strikes, metadata.window_end, metadata.step = 0, 0, step
    metadata.blocked_until, metadata.banned_until = banned_until, banned_until
    metadata.forget_at = math.min(banned_until + forget, MAX_SAFE)
  end
end

-- Counts the refusals of a call as strikes by the group's rule for bans: one against the key of each
-- policy that refuses, or one against that of the rule's target. The rule is at `context.ban` of the
-- request (see dispatch/batch.lua).
local function strike(context, group, keys, outcomes)
  local policies, target = struct.unpack('>I1d', context.request, context.ban)
  local is_struck = {}
  for index = 1, #group.executors do
    if outcomes[index] == OUTCOME_REFUSED and math.floor(policies / 2 ^ (index - 1)) % 2 == 1 then
      is_struck[target > 0 and target or index] = true
    end
  end
  for index, own in ipairs(group.executors) do
    if is_struck[index] then
      local key = keys[index]
      local executor = group.executor_of[key] or own
      strike_key(context, key, executor.override_numbers)
      executor.mark_rewrite(key)
    end
  end
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
