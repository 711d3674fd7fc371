-- The twin of src/algorithm/token_bucket_interval.rs: the token bucket refilled at intervals.
--
-- A value is five doubles: the anchor (in microseconds), the used units, and the numbers with which
-- it was written (every, tokens, and the most units that may be used). All are whole and below
-- 2^53. One more byte, 'l', marks a value that lingers: its key is kept for a day after the bucket
-- is full.
--
-- A policy is those three numbers, the capacity (the most units less the debt), the initial units,
-- and the TTL step.
--
-- A state in the reply is the anchor and the used units. If its numbers differ from the policy's,
-- every, tokens, the most units, and 1 if it lingers follow in the further doubles.

local function token_bucket_interval(context, source, at)
  local LIMIT, DAY, MIN_TTL_STEP = 9007199254740992, 86400000000, 1000000
  local now, pack, unpack_struct = context.now, struct.pack, struct.unpack
  local every, tokens, most, capacity, initial, ttl_step, after = unpack_struct('>dddddd', source, at)
  -- The policy's numbers as a value has them, and the length of a value.
  local numbers = string.sub(source, at, at + 23)
  local value_size = initial < capacity and 41 or 40
  -- By key: the value, if there is one.
  local stored = {}
  local dirty_keys, write_modes, mark_dirty, mark_rewrite = new_dirty_keys(stored)

  -- By key: the state; nil if the value cannot be read.
  local anchors, used_units = {}, {}
  -- By key: the numbers with which the value was written, if they differ from the policy's.
  local other_numbers = {}
  -- The state after the last admitted call.
  local next_anchor, next_used

  local function read(key, value)
    stored[key] = value
    if not value then
      anchors[key], used_units[key] = 0, 0
      return
    end
    if #value ~= 40 and #value ~= 41 then
      return
    end
    local anchor, used, e, t, m = unpack_struct('>ddddd', value)
    if not (is_integer(anchor) and is_integer(used)) then
      return
    end
    local other
    if #value ~= value_size or e ~= every or t ~= tokens or m ~= most then
      if
        not (is_integer(e) and is_integer(t) and is_integer(m)) or e == 0 or t == 0
        or refills_for(m, t) * e >= LIMIT
      then
        return
      end
      other = { every = e, tokens = t, most = m, numbers = string.sub(value, 17, 40), lingers = #value == 41 }
    end
    if used > m then
      return
    end
    -- The clock has stepped back: the bucket is fully used now.
    if anchor > now and anchor + refills_for(used, t) * e > now + refills_for(m, t) * e then
      anchor, used = now, m
      mark_dirty(key, 2)
    end
    anchors[key], used_units[key], other_numbers[key] = anchor, used, other
  end

  -- The time at which a bucket is full, by its own numbers or by the policy's.
  local function full_at(anchor, used, other)
    if other then
      return anchor + refills_for(used, other.tokens) * other.every
    end
    return anchor + refills_for(used, tokens) * every
  end

  -- Makes sure that the key of a bucket that begins low is kept for a day after the bucket is full.
  -- A fresh key gets the initial state. A value of a policy that begins full is marked as
  -- lingering.
  local function normalize(key)
    local other = other_numbers[key]
    local full = full_at(anchors[key], used_units[key], other)
    local lingers = not other or other.lingers
    if full == 0 or full <= (lingers and now - DAY or now) then
      anchors[key], used_units[key], other_numbers[key] = now, capacity - initial, nil
      mark_rewrite(key)
    elseif not lingers then
      other.lingers = true
      if other.numbers == numbers then
        other_numbers[key] = nil
      end
      mark_dirty(key, 2)
    end
  end

  local function outcome_of(key, cost)
    if not anchors[key] then
      return OUTCOME_UNREADABLE
    end
    if cost == 0 then
      return OUTCOME_ADMITTED
    end
    if initial < capacity then
      normalize(key)
    end
    if cost > most then
      return OUTCOME_IMPOSSIBLE
    end
    local other, anchor, used = other_numbers[key], anchors[key], used_units[key]
    if other then
      anchor, used = refill(now, anchor, used, other.every, other.tokens)
    else
      anchor, used = refill(now, anchor, used, every, tokens)
    end
    if used >= capacity or used + cost > most then
      return OUTCOME_REFUSED
    end
    -- The current interval continues, or a new one begins.
    if used == 0 or anchor > now or now - anchor >= every then
      anchor = now
    end
    next_anchor, next_used = anchor, used + cost
    return OUTCOME_ADMITTED
  end

  local function reset_at(key)
    local other, lingers = other_numbers[key], value_size == 41
    if other then
      lingers = other.lingers
    end
    local full = anchors[key] and full_at(anchors[key], used_units[key], other) or 0
    return full > 0 and lingers and full + DAY or full
  end

  local function charge(key)
    local former = other_numbers[key]
    if former then
      renumber(context, key, reset_at(key))
    end
    if not stored[key] then
      mark_dirty(key, 3)
    elseif other_numbers[key] then
      mark_dirty(key, 2)
    else
      -- A TTL reaches to the second next multiple of `ttl_step` after the bucket is full. So it
      -- never ends early, and it changes only when that time passes a multiple.
      local old, new = full_at(anchors[key], used_units[key]), full_at(next_anchor, next_used)
      mark_dirty(key, new - new % ttl_step == old - old % ttl_step and 1 or 2)
    end
    anchors[key], used_units[key], other_numbers[key] = next_anchor, next_used, nil
  end

  local function refund(key, units, taken)
    local other = other_numbers[key]
    local interval, refill_tokens, lingers = every, tokens, value_size == 41
    if other then
      interval, refill_tokens, lingers = other.every, other.tokens, other.lingers
    end
    local anchor, used = refill(now, anchors[key], used_units[key], interval, refill_tokens)
    -- The decision rounded the time of the full bucket up.
    local full = math.max(taken.reset_at - (lingers and DAY or 0) - 999, 0)
    if full <= now then
      return 0
    end
    -- At least these were used after the call; the refills since are not. The refills until the bucket
    -- is full return all that are.
    local since = refills_for(math.max(anchor - taken.at, 0), interval) * refill_tokens
    local own = math.max(math.max(taken.used, taken.cost) - since, 0)
    local refills = refills_for(math.max(full - anchor, 0), interval)
    local reported = math.max(refills - 1, 0) * refill_tokens
    local by_order = math.max(own, reported) - taken.moved
    -- However others have moved them, the refills since returned no more of the call's units.
    local charged = math.max(by_order, units + taken.kept - since, 0)
    -- More than the used units are not of this state.
    if anchor > now or charged > used then
      return 0
    end
    local refunded = math.min(units, charged)
    if refunded == 0 then
      return 0
    end
    used = used - refunded
    if used == 0 then
      anchor = now
    end
    anchors[key], used_units[key] = anchor, used
    mark_dirty(key, 1)
    return refunded, nil, refunded
  end

  local function encode_state(key)
    local other = other_numbers[key]
    return pack('>dd', anchors[key] or 0, used_units[key] or 0),
      other and other.numbers .. pack('>d', other.lingers and 1 or 0)
  end

  local function write_bucket(key)
    local other, lingers = other_numbers[key], value_size == 41
    if other then
      lingers = other.lingers
    end
    local full = full_at(anchors[key], used_units[key], other)
    local value = pack('>dd', anchors[key], used_units[key]) .. (other and other.numbers or numbers)
    -- The step follows from the numbers in the value, not from those of the policy that writes it.
    -- A policy with the numbers in the value keeps the TTL, and assumes its own step for it.
    local step = other and math.max(refills_for(other.most, other.tokens) * other.every, MIN_TTL_STEP) or ttl_step
    local expires_at = full - full % step + 2 * step + (lingers and DAY or 0)
    return write_string(context, key, write_modes[key], value .. (lingers and 'l' or ''),
      math.ceil((expires_at - now) / 1000))
  end

  return {
    after = after, is_string = true, dirty_keys = dirty_keys, write_modes = write_modes, read = read,
    outcome_of = outcome_of, charge = charge, refund = refund, reset_at = reset_at,
    encode_state = encode_state,
    mark_rewrite = mark_rewrite, write = write_bucket,
  }
end
