-- The twin of src/algorithm/rate/mod.rs: GCRA, the token bucket and the leaky bucket.
--
-- A value is five doubles: the arrival (whole microseconds, and N'-ths of one), and the numbers
-- with which it was written (P', N', burst). If a slot is scheduled, the latest slot follows as a
-- sixth double. A byte marks a value that lingers: its key is kept for a day after the bucket is
-- full. The byte is 'l', or after a slot 'B' if the value lingers and 'b' if it does not.
--
-- A policy is P', N', burst, the capacity (burst less the debt), the initial units, the time of one
-- unit, the time to full, and the TTL step. Times are two doubles, whole microseconds and N'-ths;
-- the TTL step is one. An override continues with the limit that the user wrote, for the reader of
-- the reply.
--
-- A state in the reply is the arrival. If its numbers differ from the policy's or a slot is scheduled,
-- P', N', burst, 1 if it lingers, and the latest slot follow in the further doubles.
--
-- All numbers are whole and below 2^53. Times are added with a carry. Division rounds down exactly,
-- because both operands are whole and below 2^53.

-- The time in which `count` units drain, at P' = q*N' + r. `count`*r + N' must be below 2^53.
-- Returns whole microseconds and N'-ths of one.
local function time_of(count, q, r, n)
  local product = count * r
  return count * q + math.floor(product / n), product % n
end

local function rate(context, source, at)
  local LIMIT, MAX_TIME, DAY, MAX_WAIT, MIN_TTL_STEP = 9007199254740992, 4503599627370496, 86400000000, 3600000000, 1000000
  local now, pack, unpack_struct = context.now, struct.pack, struct.unpack
  local period, units, burst, capacity, initial, unit_micros, unit_part, full_micros, horizon_part, ttl_step, after =
    unpack_struct('>dddddddddd', source, at)
  -- The policy's numbers as a value has them, and the length of a value.
  local numbers = string.sub(source, at, at + 23)
  local lingers = initial < capacity
  local value_length = lingers and 41 or 40
  -- The latest arrival that this policy can write.
  local horizon_micros = now + full_micros
  -- By key: the value, if there is one.
  local stored = {}
  local dirty_keys, write_modes, mark_dirty, mark_rewrite = new_dirty_keys(stored)

  -- By key: the arrival; nil if the value cannot be read.
  local micros, parts = {}, {}
  -- By key: the numbers of the state, if they differ from the policy's or a slot is scheduled.
  local other_numbers = {}
  -- The arrival after the last admitted call.
  local next_micros, next_part

  -- The units of an arrival that have not drained at a time, rounded up. This is a binary long
  -- division; its divisors are the times of 2^k units.
  local function units_used(arrival_micros, arrival_part, other, as_of)
    local left_micros, left_part = arrival_micros - as_of, arrival_part
    if left_micros < 0 or (left_micros == 0 and left_part == 0) then
      return 0
    end
    local n = other.units
    local step_micros, step_parts, top = { other.q }, { other.r }, 1
    while step_micros[top] < left_micros or (step_micros[top] == left_micros and step_parts[top] <= left_part) do
      local part = step_parts[top] * 2
      local carry = part >= n and 1 or 0
      step_micros[top + 1] = step_micros[top] * 2 + carry
      step_parts[top + 1] = part - carry * n
      top = top + 1
    end
    local used = 0
    for k = top, 1, -1 do
      if step_micros[k] < left_micros or (step_micros[k] == left_micros and step_parts[k] <= left_part) then
        left_micros = left_micros - step_micros[k]
        left_part = left_part - step_parts[k]
        if left_part < 0 then
          left_part = left_part + n
          left_micros = left_micros - 1
        end
        used = used + 2 ^ (k - 1)
      end
    end
    if left_micros > 0 or left_part > 0 then
      used = used + 1
    end
    return used
  end

  -- Decodes a state with other numbers. The key stays unreadable if they are invalid.
  local function decode_other(key, m, part, text, is_lingering, booked_until)
    local p, n, b = unpack_struct('>ddd', text)
    if not (
      is_integer(m) and is_integer(part) and is_integer(p) and is_integer(n) and is_integer(b)
      and is_integer(booked_until)
    ) then
      return
    end
    if p == 0 or n == 0 or b == 0 or part >= n then
      return
    end
    local r = p % n
    local q = (p - r) / n
    if b * r + n >= LIMIT then
      return
    end
    local horizon_m, horizon_p = time_of(b, q, r, n)
    if horizon_m > MAX_TIME then
      return
    end
    local is_left = booked_until > now + MAX_WAIT
    if is_left then
      booked_until = 0
    end
    horizon_m = math.max(now, booked_until) + horizon_m
    if is_left or m > horizon_m or (m == horizon_m and part > horizon_p) then
      -- The clock has stepped back: the bucket is fully used now.
      m, part = horizon_m, horizon_p
      mark_dirty(key, 2)
    end
    micros[key], parts[key] = m, part
    other_numbers[key] = nil
    if booked_until > 0 or text ~= numbers or is_lingering ~= lingers then
      other_numbers[key] = {
        units = n, q = q, r = r, burst = b, numbers = text, lingers = is_lingering, booked_until = booked_until,
      }
    end
  end

  local function read(key, value)
    stored[key] = value
    if not value then
      micros[key], parts[key] = 0, 0
    elseif #value == value_length and string.find(value, numbers, 17, true) == 17 then
      local m, part = unpack_struct('>dd', value)
      if is_integer(m) and is_integer(part) and part < units then
        if m > horizon_micros or (m == horizon_micros and part > horizon_part) then
          m, part = horizon_micros, horizon_part
          mark_dirty(key, 2)
        end
        micros[key], parts[key] = m, part
      end
    elseif #value == 40 or #value == 41 or #value == 49 then
      local m, part = unpack_struct('>dd', value)
      local booked_until = #value == 49 and unpack_struct('>d', value, 41) or 0
      local is_lingering = #value == 41 or string.sub(value, 49) == 'B'
      decode_other(key, m, part, string.sub(value, 17, 40), is_lingering, booked_until)
    end
  end

  -- Makes sure that the key of a bucket that begins low is kept for a day after the bucket is full.
  -- A fresh key gets the initial state. A value of a policy that begins full is marked as
  -- lingering.
  local function normalize(key)
    local other = other_numbers[key]
    local full_at = micros[key] + (parts[key] > 0 and 1 or 0)
    local is_lingering = not other or other.lingers
    if full_at == 0 or full_at <= (is_lingering and now - DAY or now) then
      local start_micros, start_part = time_of(capacity - initial, unit_micros, unit_part, units)
      micros[key], parts[key], other_numbers[key] = now + start_micros, start_part, nil
      mark_rewrite(key)
    elseif not is_lingering then
      other.lingers = true
      if other.numbers == numbers and other.booked_until == 0 then
        other_numbers[key] = nil
      end
      mark_dirty(key, 2)
    end
  end

  -- The outcome now, or at `slot`. With a slot, the key must be normalized already.
  local function outcome_of(key, cost, slot)
    local as_of = slot or now
    if not micros[key] then
      return OUTCOME_UNREADABLE
    end
    if cost == 0 then
      return OUTCOME_ADMITTED
    end
    if lingers and not slot then
      normalize(key)
    end
    if cost > burst then
      return OUTCOME_IMPOSSIBLE
    end
    local other, m, part = other_numbers[key], micros[key], parts[key]
    if other and other.booked_until > as_of then
      return OUTCOME_REFUSED
    end
    if other and (other.numbers ~= numbers or other.lingers ~= lingers) then
      local used = units_used(m, part, other, as_of)
      if used >= capacity or used + cost > burst then
        return OUTCOME_REFUSED
      end
      m, part = time_of(used, unit_micros, unit_part, units)
      m = m + as_of
    else
      if m < as_of then
        m, part = as_of, 0
      end
      if capacity < burst then
        -- The policy allows debt: before the call, at least one whole unit must remain.
        local unit_m, unit_p = m + unit_micros, part + unit_part
        if unit_p >= units then
          unit_m, unit_p = unit_m + 1, unit_p - units
        end
        local max_m, max_p = time_of(capacity, unit_micros, unit_part, units)
        max_m = as_of + max_m
        if unit_m > max_m or (unit_m == max_m and unit_p > max_p) then
          return OUTCOME_REFUSED
        end
      end
    end
    local cost_micros, cost_part = time_of(cost, unit_micros, unit_part, units)
    m, part = m + cost_micros, part + cost_part
    if part >= units then
      m, part = m + 1, part - units
    end
    local horizon_m = as_of + full_micros
    if m > horizon_m or (m == horizon_m and part > horizon_part) then
      return OUTCOME_REFUSED
    end
    next_micros, next_part = m, part
    return OUTCOME_ADMITTED
  end

  local function reset_at(key)
    local other, is_lingering = other_numbers[key], lingers
    if other then
      is_lingering = other.lingers
    end
    local full_at = (micros[key] or 0) + ((parts[key] or 0) > 0 and 1 or 0)
    return full_at > 0 and is_lingering and full_at + DAY or full_at
  end

  local function charge(key)
    local old, m, other = micros[key], next_micros, other_numbers[key]
    if other and (other.numbers ~= numbers or other.lingers ~= lingers) then
      renumber(context, key, reset_at(key))
    end
    if not stored[key] then
      mark_dirty(key, 3)
    elseif other_numbers[key] or m - m % ttl_step ~= old - old % ttl_step then
      -- A TTL reaches to the second next multiple of `ttl_step` after the arrival. So it never ends
      -- early, and it changes only when the arrival passes a multiple.
      mark_dirty(key, 2)
    else
      mark_dirty(key, 1)
    end
    micros[key], parts[key], other_numbers[key] = m, next_part, nil
  end

  -- Moves the arrival back by the time of the units. The call's units lie below the arrival that its
  -- decision reported, less the units that have come back since.
  local function refund(key, max_units, taken)
    local other = other_numbers[key]
    if other and other.booked_until > now then
      -- Calls that wait have their slots already, and a refund must not admit another call before them.
      return 0
    end
    local q, r, n, most, is_lingering = unit_micros, unit_part, units, burst, lingers
    if other then
      q, r, n, most, is_lingering = other.q, other.r, other.units, other.burst, other.lingers
    end
    -- The decision rounded its arrival up; it was at least the call's own time after the call.
    local reported = math.max(taken.reset_at - (is_lingering and DAY or 0), 0)
    local earliest = math.max(reported - 1000, 0)
    if earliest < now then
      return 0
    end
    local m, part = time_of(math.min(taken.cost, most), q, r, n)
    m = m + taken.at
    if m < earliest then
      m, part = earliest, 0
    end
    m = m - taken.moved
    -- However others have moved it, the call's stretch began no earlier than the call.
    local left_m, left_p = time_of(math.min(max_units + taken.kept, most), q, r, n)
    left_m = left_m + taken.at
    if left_m > m or (left_m == m and left_p > part) then
      m, part = left_m, left_p
    end
    -- A unit of a later call would have moved the arrival by more than the rounding.
    local latest = micros[key] + taken.moved
    if q > 1000 and latest >= earliest and latest <= reported then
      m, part = micros[key], parts[key]
    end
    -- A later arrival than that of the state is not of this state.
    if m < now or m > micros[key] or (m == micros[key] and part > parts[key]) then
      return 0
    end
    local refunded = math.min(max_units, units_used(m, part, other or { q = q, r = r, units = n }, now))
    if refunded == 0 then
      return 0
    end
    local moved_m, moved_p = time_of(refunded, q, r, n)
    if moved_m > m - now or (moved_m == m - now and moved_p > part) then
      -- The last unit has drained in part: the rest of it comes back.
      moved_m, moved_p = m - now, part
    end
    m, part = micros[key] - moved_m, parts[key] - moved_p
    if part < 0 then
      m, part = m - 1, part + n
    end
    micros[key], parts[key] = m, part
    mark_dirty(key, 1)
    return refunded, nil, moved_m + (moved_p > 0 and 1 or 0)
  end

  local function encode_state(key)
    local other = other_numbers[key]
    return pack('>dd', micros[key] or 0, parts[key] or 0),
      other and other.numbers .. pack('>dd', other.lingers and 1 or 0, other.booked_until)
  end

  local function write_rate(key)
    local m, other, is_lingering, booked_until, mark_byte = micros[key], other_numbers[key], lingers, '', ''
    if other then
      is_lingering = other.lingers
    end
    if other and other.booked_until > 0 then
      booked_until, mark_byte = pack('>d', other.booked_until), is_lingering and 'B' or 'b'
    elseif is_lingering then
      mark_byte = 'l'
    end
    local value = pack('>dd', m, parts[key]) .. (other and other.numbers or numbers) .. booked_until .. mark_byte
    -- The step follows from the numbers in the value, not from those of the policy that writes it.
    -- A policy with the numbers in the value keeps the TTL, and assumes its own step for it.
    local step = other and math.max(time_of(other.burst, other.q, other.r, other.units), MIN_TTL_STEP) or ttl_step
    local expires_at = m - m % step + 2 * step + (is_lingering and DAY or 0)
    return write_string(context, key, write_modes[key], value, math.ceil((expires_at - now) / 1000))
  end

  -- Functions for scheduling (src/algorithm/rate/scheduled.rs). The keys must be normalized.
  local function booking_functions()
    -- The first microsecond at which a refused cost would be admitted.
    local function slot(key, cost)
      local other, m, part = other_numbers[key], micros[key], parts[key]
      local free = math.min(burst - cost, capacity - 1)
      local fits_at = now
      if not other or free < other.burst then
        -- Otherwise the cost fits, and only the scheduled slots delay it.
        local q, r, n = unit_micros, unit_part, units
        if other then
          q, r, n = other.q, other.r, other.units
        end
        local lead_m, lead_p = time_of(free, q, r, n)
        fits_at = m + (part > lead_p and 1 or 0) - lead_m
      end
      return math.max(now, fits_at, other and other.booked_until or 0)
    end

    -- The full state: the arrival, P', N', burst, 1 if it lingers, and the latest slot. A drained
    -- state is encoded as fresh, because Redis may or may not have dropped it.
    local function encode_full_state(key)
      local m, part, other, is_lingering = micros[key], parts[key], other_numbers[key], lingers
      if other then
        is_lingering = other.lingers
      end
      if m + (part > 0 and 1 or 0) + (is_lingering and DAY or 0) <= now then
        m, part, other, is_lingering = 0, 0, nil, lingers
      end
      return pack('>dd', m, part) .. (other and other.numbers or numbers)
        .. pack('>dd', is_lingering and 1 or 0, other and other.booked_until or 0)
    end

    local function book(key, cost, slot)
      outcome_of(key, cost, slot)
      charge(key)
      if slot > now then
        other_numbers[key] = {
          units = units, q = unit_micros, r = unit_part, burst = burst, numbers = numbers, lingers = lingers,
          booked_until = slot,
        }
        mark_rewrite(key)
      end
    end

    local function restore(key, text)
      local m, part = unpack_struct('>dd', text)
      local is_lingering, booked_until = unpack_struct('>dd', text, 41)
      decode_other(key, m, part, string.sub(text, 17, 40), is_lingering > 0, booked_until)
      if micros[key] + (parts[key] > 0 and 1 or 0) + (is_lingering > 0 and DAY or 0) <= now then
        micros[key], parts[key], other_numbers[key] = 0, 0, nil
      end
      mark_rewrite(key)
      -- Repairs the state if the clock has stepped back since the call was scheduled.
      outcome_of(key, 1)
    end

    return { slot = slot, encode_full_state = encode_full_state, book = book, restore = restore }
  end

  return {
    after = after, is_string = true, dirty_keys = dirty_keys, write_modes = write_modes, read = read,
    outcome_of = outcome_of, charge = charge, refund = refund, reset_at = reset_at, encode_state = encode_state,
    accepts_override = function(override) return #override == 88 end, mark_rewrite = mark_rewrite,
    write = write_rate, booking_functions = booking_functions,
  }
end
