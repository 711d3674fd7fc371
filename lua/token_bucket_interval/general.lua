-- The twin of src/algorithm/token_bucket_interval.rs: the token bucket refilled at intervals.
--
-- A value is five doubles: the anchor (in microseconds), the units used, and the numbers it was written with
-- (every, tokens, and the most units that may be used). All are whole and below 2^53. One byte more marks a
-- value that lingers: its key is known for a day after it is full.
--
-- A policy is those three numbers, the capacity (the most less the debt), the units at first, and how far
-- TTLs reach. A state's two numbers are the anchor and the units used; those of one in other numbers are
-- every, tokens, most, and 1 if it lingers.

local function token_bucket_interval(round, source, at)
  local LIMIT, DAY, MIN_TTL_STEP = 9007199254740992, 86400000000, 1000000
  local ADMITTED, REFUSED, IMPOSSIBLE, UNREADABLE = round.ADMITTED, round.REFUSED, round.IMPOSSIBLE, round.UNREADABLE
  local now, pack, unpack_struct = round.now, struct.pack, struct.unpack
  local every, tokens, most, capacity, initial, ttl_step, after = unpack_struct('>dddddd', source, at)
  -- The numbers as they stand in a value, and its length.
  local numbers = string.sub(source, at, at + 23)
  local size = initial < capacity and 41 or 40
  local dirty, how, mark = new_marks()

  -- By key: the state. Nil is a value that cannot be read.
  local anchors, useds = {}, {}
  -- By key: whether there is a value; the numbers that it was written with, where they are not this policy's.
  local stored, others = {}, {}
  -- What the call that was admitted last leaves.
  local next_anchor, next_used

  local function read(key, value)
    stored[key] = value
    if not value then
      anchors[key], useds[key] = 0, 0
      return
    end
    if #value ~= 40 and #value ~= 41 then
      return
    end
    local anchor, used, e, t, m = unpack_struct('>ddddd', value)
    if not (whole(anchor) and whole(used)) then
      return
    end
    local other
    if #value ~= size or e ~= every or t ~= tokens or m ~= most then
      if not (whole(e) and whole(t) and whole(m)) or e == 0 or t == 0 or refills_for(m, t) * e >= LIMIT then
        return
      end
      other = { every = e, tokens = t, most = m, numbers = string.sub(value, 17, 40), lingers = #value == 41 }
    end
    if used > m then
      return
    end
    -- Left by a clock that has stepped back: as fully used now.
    if anchor > now and anchor + refills_for(used, t) * e > now + refills_for(m, t) * e then
      anchor, used = now, m
      mark(key, 2)
    end
    anchors[key], useds[key], others[key] = anchor, used, other
  end

  -- The time at which a bucket is full, of this policy's numbers or of others.
  local function full_at(anchor, used, other)
    if other then
      return anchor + refills_for(used, other.tokens) * other.every
    end
    return anchor + refills_for(used, tokens) * every
  end

  -- Sees to it that a key of a bucket that begins low is known for a day after it is full: if it was never seen, it
  -- begins; if the value is of a policy that begins full, it is kept longer.
  local function meet(key)
    local other = others[key]
    local full = full_at(anchors[key], useds[key], other)
    local lingers = not other or other.lingers
    if full == 0 or full <= (lingers and now - DAY or now) then
      anchors[key], useds[key], others[key] = now, capacity - initial, nil
      mark(key, stored[key] and 2 or 3)
    elseif not lingers then
      other.lingers = true
      if other.numbers == numbers then
        others[key] = nil
      end
      mark(key, 2)
    end
  end

  local function admits(key, cost)
    if not anchors[key] then
      return UNREADABLE
    end
    if cost == 0 then
      return ADMITTED
    end
    if initial < capacity then
      meet(key)
    end
    if cost > most then
      return IMPOSSIBLE
    end
    local other, anchor, used = others[key], anchors[key], useds[key]
    if other then
      anchor, used = counted(now, anchor, used, other.every, other.tokens)
    else
      anchor, used = counted(now, anchor, used, every, tokens)
    end
    if used >= capacity or used + cost > most then
      return REFUSED
    end
    -- The interval runs on, or begins anew.
    if used == 0 or anchor > now or now - anchor >= every then
      anchor = now
    end
    next_anchor, next_used = anchor, used + cost
    return ADMITTED
  end

  local function charge(key)
    if not stored[key] then
      mark(key, 3)
    elseif others[key] then
      mark(key, 2)
    else
      -- A TTL reaches to the second next multiple of ttl_step after the bucket is full, so that it need not
      -- be set anew until that time passes a multiple, and never ends early.
      local old, new = full_at(anchors[key], useds[key]), full_at(next_anchor, next_used)
      mark(key, new - new % ttl_step == old - old % ttl_step and 1 or 2)
    end
    anchors[key], useds[key], others[key] = next_anchor, next_used, nil
  end

  local function refund(key, units, _, reset_at)
    local other = others[key]
    local length, per_refill = every, tokens
    if other then
      length, per_refill = other.every, other.tokens
    end
    local anchor, used = counted(now, anchors[key], useds[key], length, per_refill)
    -- The refills until the call's units are as if never taken.
    local since_anchor, refills = reset_at - (size == 41 and DAY or 0) - anchor, 0
    if since_anchor > now - anchor and since_anchor > 0 then
      refills = (since_anchor - since_anchor % length) / length
    end
    local back = math.min(units, used, refills * per_refill)
    if back == 0 then
      return 0
    end
    used = used - back
    if used == 0 then
      anchor = now
    end
    anchors[key], useds[key] = anchor, used
    mark(key, 1)
    return back
  end

  local function touch(key)
    mark(key, stored[key] and 2 or 3)
  end

  local function tell(key)
    local other = others[key]
    return pack('>dd', anchors[key] or 0, useds[key] or 0),
      other and other.numbers .. pack('>d', other.lingers and 1 or 0)
  end

  local function save_bucket(key)
    local other, lingers = others[key], size == 41
    if other then
      lingers = other.lingers
    end
    local full = full_at(anchors[key], useds[key], other)
    local value = pack('>dd', anchors[key], useds[key]) .. (other and other.numbers or numbers)
    -- The step follows from the numbers in the value, not from those of the policy that writes it: a policy with the
    -- numbers in the value takes the TTL for one of its own step, and leaves it as it is.
    local step = other and math.max(refills_for(other.most, other.tokens) * other.every, MIN_TTL_STEP) or ttl_step
    local dies_at = full - full % step + 2 * step + (lingers and DAY or 0)
    return save(round, key, how[key], value .. (lingers and 'l' or ''), math.ceil((dies_at - now) / 1000))
  end

  return {
    after = after, strings = true, dirty = dirty, how = how, read = read, admits = admits,
    charge = charge, refund = refund, tell = tell, touch = touch, save = save_bucket,
  }
end
