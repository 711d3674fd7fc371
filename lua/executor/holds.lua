-- Holds of reservations, and the set that has them and the calls that may be repeated (see
-- repeats.lua). They are stored beside the states: one sorted set for each limiter and
-- user key, which expires with its last member.
--
-- A hold has two members with its expiry in microseconds as their score: its identifier, and its
-- identifier followed by its units: a double, or one for each policy if they are by policy. Members
-- with equal scores are sorted bytewise, so the second follows the first.
--
-- A hold can be settled for HOLD_LATE microseconds after its expiry.
--
-- All functions take the number of the set's key, and units as this text. On failure they return
-- Redis's reply, or `false` if the key is not such a sorted set.
local function new_holds(context)
  -- Of 10,000 holds and calls. The embedded store has the same number.
  local MAX_MEMBERS, MAX_DROPPED = 20000, 100
  local holds = {}

  -- Adds one or two members with their score, and drops up to MAX_DROPPED members that can no longer be
  -- settled. A full set drops those that have expired, too. Returns an error if that failed.
  function holds.add_members(key, score, ...)
    local name = KEYS[key]
    local members = redis.pcall('ZCARD', name)
    if type(members) ~= 'number' then
      return false
    end
    local dropped_until = members < MAX_MEMBERS and context.now - HOLD_LATE or context.now
    local ended = redis.pcall('ZCOUNT', name, '-inf', dropped_until)
    if ended > 0 then
      redis.pcall('ZREMRANGEBYRANK', name, '0', math.min(ended, MAX_DROPPED) - 1)
    end
    local added = redis.pcall('ZADD', name, score, ...)
    if type(added) ~= 'number' then
      return added
    end
    local latest = redis.pcall('ZREVRANGE', name, '0', '0', 'WITHSCORES')[2]
    -- One more millisecond, because Redis's clock for expiry may be behind the script's.
    local ttl = string.format('%.0f', math.ceil((tonumber(latest) + HOLD_LATE - context.now) / 1000) + 1)
    redis.pcall('PEXPIRE', KEYS[key], ttl)
  end

  -- Adds a hold. Returns an error if that failed.
  function holds.add(key, id, units, expires_at)
    return holds.add_members(key, expires_at, id, expires_at, id .. units)
  end

  -- Whether a key has the most holds and calls that it may have.
  function holds.is_full(key)
    local members = redis.pcall('ZCARD', KEYS[key])
    if type(members) ~= 'number' or members < MAX_MEMBERS then
      return false
    end
    return members - redis.pcall('ZCOUNT', KEYS[key], '-inf', context.now) >= MAX_MEMBERS
  end

  -- Returns the score of a name, and the rest of the member that begins with it; nil if the set has no such
  -- members. The third result is `false` if the set cannot be read.
  function holds.read(key, name)
    local rank = redis.pcall('ZRANK', KEYS[key], name)
    if type(rank) == 'table' then
      return nil, nil, false
    end
    if not rank then
      return nil
    end
    local found = redis.pcall('ZRANGE', KEYS[key], rank, rank + 1, 'WITHSCORES')
    local member = found[3]
    if member and #member > #name and string.sub(member, 1, #name) == name then
      return tonumber(found[2]), string.sub(member, #name + 1), nil
    end
  end

  -- Returns the expiry and the units of a hold, or nil if the hold expired more than `lateness` ago (by
  -- default 0) or does not exist, or if its units do not have `size` bytes: a limiter with other policies
  -- may have charged them. Without `size` they may have any number of bytes. The third result is `false`
  -- if the set cannot be read.
  function holds.find(key, id, size, lateness)
    local expires_at, units, failure = holds.read(key, id)
    if
      expires_at and expires_at > context.now - (lateness or 0) and #units % 8 == 0 and #units == (size or #units)
    then
      return expires_at, units, nil
    end
    return nil, nil, failure
  end

  -- Replaces the units and the expiry of a hold. Returns an error if that failed.
  function holds.change(key, id, units, new_units, expires_at)
    if units ~= new_units then
      local removed = redis.pcall('ZREM', KEYS[key], id .. units)
      if type(removed) ~= 'number' then
        return removed
      end
    end
    return holds.add(key, id, new_units, expires_at)
  end

  -- Removes a hold. Returns an error if that failed.
  function holds.remove(key, id, units)
    local removed = redis.pcall('ZREM', KEYS[key], id, id .. units)
    if type(removed) ~= 'number' then
      return removed
    end
  end

  -- Registers a function for the outcomes from `first_outcome` on. It undoes the change of a hold
  -- if one of their keys cannot be written.
  function holds.undo_on_failure(group, first_outcome, undo)
    for outcome = first_outcome, context.outcome_count do
      group.undo_hold[outcome] = undo
    end
  end

  return holds
end
