-- Holds of reservations. They are stored beside the states: one sorted set for each limiter and
-- user key, with the identifiers of the holds scored by their expiry in microseconds. The set
-- expires with its last hold.
--
-- All functions take the number of the set's key. On failure they return Redis's reply, or `false`
-- if the key is not such a sorted set.
local function new_holds(context)
  local MAX_DROPPED = 100
  local holds = {}

  -- Adds a hold, and drops up to MAX_DROPPED expired holds. Returns an error if that failed.
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
    -- One more millisecond, because Redis's clock for expiry may be behind the script's.
    local ttl = string.format('%.0f', math.ceil((tonumber(latest) - context.now) / 1000) + 1)
    redis.pcall('PEXPIRE', KEYS[key], ttl)
  end

  -- Returns the expiry of a hold, or nil if the hold has expired or does not exist. The second
  -- result is `false` if the set cannot be read.
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

  -- Removes a hold. Returns an error if that failed.
  function holds.remove(key, id)
    local removed = redis.pcall('ZREM', KEYS[key], id)
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
