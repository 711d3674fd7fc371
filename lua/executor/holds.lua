-- Holds of reservations. A user's key has one sorted set of them for each limiter, beside the states: by id, when they end
-- in microseconds. It expires when the last of them has ended.
--
-- A set is given by the number of its key. What could not be done is told by what Redis said, or by `false` if the key is
-- no such set.
local function new_holds(context)
  local MAX_DROPPED = 100
  local holds = {}

  -- Notes a hold, in place of some that have ended; answers with why it could not.
  function holds.add(key, id, expires_at)
    local name = KEYS[key]
    local ended = redis.pcall('ZCOUNT', name, '-inf', context.now)
    if type(ended) ~= 'number' then
      return false
    end
    if ended > 0 then
      redis.pcall('ZREMRANGEBYRANK', name, '0', math.min(ended, MAX_DROPPED) - 1)
    end
    local added = redis.pcall('ZADD', name, expires_at, id)
    if type(added) ~= 'number' then
      return added
    end
    local latest = redis.pcall('ZREVRANGE', name, '0', '0', 'WITHSCORES')[2]
    -- One millisecond more: Redis's clock for expiry may lag behind this script's.
    local ttl = string.format('%.0f', math.ceil((tonumber(latest) - context.now) / 1000) + 1)
    redis.pcall('PEXPIRE', KEYS[key], ttl)
  end

  -- When a hold ends, if it is there and has not ended; and why that cannot be told.
  function holds.expiry_of(key, id)
    local expires_at = redis.pcall('ZSCORE', KEYS[key], id)
    if type(expires_at) == 'table' then
      return nil, false
    end
    expires_at = expires_at and tonumber(expires_at)
    if expires_at and expires_at > context.now then
      return expires_at
    end
  end

  -- Does away with a hold; answers with why it could not.
  function holds.remove(key, id)
    local removed = redis.pcall('ZREM', KEYS[key], id)
    if type(removed) ~= 'number' then
      return removed
    end
  end

  -- Has what a call did to a hold undone if a key is not written: `how`, for the outcomes of the call.
  function holds.undo_on_failure(group, first_outcome, undo)
    for outcome = first_outcome, context.outcome_count do
      group.undo_hold[outcome] = undo
    end
  end

  return holds
end
