-- The twin of src/algorithm/token_bucket_interval.rs: the token bucket refilled at intervals.
--
-- A value is five doubles: the anchor (in microseconds), the units used, and the numbers it was written with
-- (every, tokens, and the most units that may be used). All are whole and below 2^53. One byte more marks a
-- value that lingers: its key is known for a day after it is full.
--
-- A policy is those three numbers, the capacity (the most less the debt), the units at first, and how far
-- TTLs reach. A state's two numbers are the anchor and the units used; those of one in other numbers are
-- every, tokens, most, and 1 if it lingers.

local values = redis.call('MGET', unpack(KEYS))
local find, pack, unpack_struct = string.find, struct.pack, struct.unpack

-- The policy of the group whose calls are decided; `numbers` are the first three as they stand in a value.
local every, tokens, most, capacity, initial, ttl_step, numbers

local LIMIT = 9007199254740992

-- By key: the state. Nil is a value that cannot be read.
local anchors, useds = {}, {}
-- By key: the numbers that the state was written with, where they are not this policy's.
local others = {}
-- By call: the state that it left.
local states = {}
local NOTHING = pack('>dd', 0, 0)

-- The refills after which nothing is used.
local function refills_for(used, per_refill)
  local rest = used % per_refill
  return (used - rest) / per_refill + (rest > 0 and 1 or 0)
end

-- The anchor and the units used with all refills counted up to now; if none are used, the anchor is now.
local function counted(anchor, used, length_of_one, per_refill)
  local elapsed = now - anchor
  if elapsed < length_of_one then
    return anchor, used
  end
  local refills = (elapsed - elapsed % length_of_one) / length_of_one
  if refills >= refills_for(used, per_refill) then
    return now, 0
  end
  return anchor + refills * length_of_one, used - refills * per_refill
end

-- Whether a number read from a value is one that was written: whole, and counted exactly.
local function whole(number)
  return number >= 0 and number < LIMIT and number % 1 == 0
end

local function read(key, length)
  local value = values[key]
  if not value then
    anchors[key], useds[key] = 0, 0
    return
  end
  if #value ~= 40 and #value ~= 41 then
    return
  end
  local anchor, used, e, t, m = unpack_struct('>ddddd', value)
  if not (whole(anchor) and whole(used) and used > 0) then
    return
  end
  if #value ~= length or e ~= every or t ~= tokens or m ~= most then
    if not (whole(e) and whole(t) and whole(m)) or e == 0 or t == 0 or refills_for(m, t) * e >= LIMIT then
      return
    end
    others[key] = {
      every = e, tokens = t, numbers = string.sub(value, 17, 40), lingers = #value == 41,
    }
  end
  if used > m then
    others[key] = nil
    return
  end
  -- Left by a clock that has stepped back: as fully used now.
  if anchor > now and anchor + refills_for(used, t) * e > now + refills_for(m, t) * e then
    anchor, used = now, m
    mark(key, 2)
  end
  anchors[key], useds[key] = anchor, used
end

-- The time at which a bucket is full, of this policy's numbers or of others.
local function full_at(anchor, used, other)
  if other then
    return anchor + refills_for(used, other.tokens) * other.every
  end
  return anchor + refills_for(used, tokens) * every
end

-- Charges the state of a key, and tells what became of it.
local function charge(key, cost)
  if not anchors[key] then
    return UNREADABLE
  end
  if cost == 0 then
    return ADMITTED
  end
  local other = others[key]
  if initial < capacity then
    -- The key must be known for a day after it is full: if it was never seen, it begins; if the value is of
    -- a policy that begins full, it is kept longer.
    local full = full_at(anchors[key], useds[key], other)
    local lingers = not other or other.lingers
    if full == 0 or full <= (lingers and now - 86400000000 or now) then
      anchors[key], useds[key], other = now, capacity - initial, nil
      mark(key, values[key] and 2 or 3)
    elseif not lingers then
      other.lingers = true
      if other.numbers == numbers then
        other = nil
      end
      mark(key, 2)
    end
    others[key] = other
  end
  if cost > most then
    return IMPOSSIBLE
  end
  local old_anchor, old_used = anchors[key], useds[key]
  local anchor, used
  if other then
    anchor, used = counted(old_anchor, old_used, other.every, other.tokens)
  else
    anchor, used = counted(old_anchor, old_used, every, tokens)
  end
  if used >= capacity or used + cost > most then
    return REFUSED
  end
  -- The interval runs on, or begins anew.
  if used == 0 or anchor > now or now - anchor >= every then
    anchor = now
  end
  used = used + cost
  if not values[key] then
    mark(key, 3)
  elseif other then
    mark(key, 2)
  else
    -- A TTL reaches to the second next multiple of ttl_step after the bucket is full, so that it need not
    -- be set anew until that time passes a multiple, and never ends early.
    local old, new = full_at(old_anchor, old_used), full_at(anchor, used)
    mark(key, new - new % ttl_step == old - old % ttl_step and 1 or 2)
  end
  anchors[key], useds[key], others[key] = anchor, used, nil
  return ADMITTED
end

local function decide(key, cost)
  local outcome = charge(key, cost)
  calls = calls + 1
  key_of[calls] = key
  if others[key] then
    outcome = outcome + OTHER
    numbers_of[calls] = others[key].numbers .. pack('>d', others[key].lingers and 1 or 0)
  end
  if outcome ~= ADMITTED then
    outcomes[calls] = outcome
  end
  states[calls] = anchors[key] and pack('>dd', anchors[key], useds[key]) or NOTHING
end

local function save_all(begins_low)
  for _, key in ipairs(dirty) do
    local other, lingers = others[key], begins_low
    if other then
      lingers = other.lingers
    end
    local full = full_at(anchors[key], useds[key], other)
    local value = pack('>dd', anchors[key], useds[key]) .. (other and other.numbers or numbers)
    local dies_at = full - full % ttl_step + 2 * ttl_step + (lingers and 86400000000 or 0)
    save(key, value .. (lingers and 'l' or ''), math.ceil((dies_at - now) / 1000))
  end
  dirty = {}
end

local at, before = 1, 0
while at <= #request do
  local count, listed
  count, listed, every, tokens, most, capacity, initial, ttl_step, at = unpack_struct('>I2I2dddddd', request, at)
  numbers = string.sub(request, at - 48, at - 25)
  local length = initial < capacity and 41 or 40

  if listed == 0 then
    -- One unit for each key, by far the most frequent group: what the functions above do, without their
    -- tables, for a key that has a value of this policy's, is not full and has room for a unit. Nothing of it
    -- but the anchor and the units used changes then, which SETRANGE writes in place, with the TTL as it is.
    for key = before + 1, before + count do
      local value, state = values[key]
      if value and #value == length and find(value, numbers, 17, true) == 17 then
        local old_anchor, old_used = unpack_struct('>dd', value)
        if
          old_anchor >= 0 and old_anchor <= now and old_anchor % 1 == 0
          and old_used > 0 and old_used <= most and old_used % 1 == 0
        then
          local anchor, used = old_anchor, old_used
          if now - anchor >= every then
            anchor, used = counted(anchor, used, every, tokens)
          end
          if used > 0 and used < capacity then
            local old, new = full_at(old_anchor, old_used), full_at(anchor, used + 1)
            if new - new % ttl_step == old - old % ttl_step then
              state = pack('>dd', anchor, used + 1)
            end
          end
        end
      end
      if state then
        calls = calls + 1
        states[calls] = state
        local written = write('SETRANGE', names[key], '0', state)
        if written ~= length then
          key_of[calls] = key
          fail(key, calls, written)
        end
      else
        read(key, length)
        decide(key, 1)
      end
    end
  else
    for key = before + 1, before + count do
      read(key, length)
    end
    for _ = 1, listed do
      local key, cost
      key, cost, at = unpack_struct('>I2d', request, at)
      decide(before + key, cost)
    end
  end
  if not peeks then
    save_all(length == 41)
  end
  before = before + count
end

return answered(table.concat(states))
