-- The twin of src/algorithm/rate.rs: GCRA, the token bucket and the leaky bucket.
--
-- A value is five doubles: the arrival (whole microseconds, and a part in N'-ths of one), and the
-- numbers it was written with (P', N', burst). All are whole and below 2^53; times are added with
-- a carry, and what divides here divides whole numbers below 2^53, where rounding down is exact.
--
-- ARGV[1]  the policy: P', N', burst, one unit's time, the time to full, and how far TTLs reach
-- ARGV[2]  for each call: the number of its key, its cost, and the cost's time; '' if there is one
--          call for each key and each costs one unit
-- ARGV[3]  'peek': nothing is written
--
-- Answers a flat list: now, and for each call an outcome and what belongs to it (see outcome.lua).

local period, units, burst, unit_micros, unit_part, full_micros, full_part, ttl_step =
  struct.unpack('>dddddddd', ARGV[1])
local numbers = string.sub(ARGV[1], 1, 24)

-- now + time to full: as far ahead as this policy can put an arrival.
local far_micros, far_part = now + full_micros, full_part

local LIMIT = 9007199254740992

-- Whether a number read from a value is one that was written: whole, and counted exactly.
local function whole(number)
  return number >= 0 and number < LIMIT and number % 1 == 0
end

-- By key: the arrival. Nil is a value that cannot be read.
local micros, parts = {}, {}
-- By key: the numbers that the arrival is counted in, where they are not this policy's.
local others = {}
-- By key: what is to be written: 1 with the TTL as it is, 2 with a new one, 3 if there was none.
local writes = {}

-- The time in which `count` units drain at P' = q*N' + r, where count*r + N' is below 2^53.
local function time_of(count, q, r, n)
  local product = count * r
  return count * q + math.floor(product / n), product % n
end

-- Units not yet drained of an arrival ahead of now, rounded up: a long division in binary, whose
-- steps are times of 2^k units.
local function units_used(arrival_micros, arrival_part, other)
  local left_micros, left_part = arrival_micros - now, arrival_part
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

-- Reads a value written with other numbers, or refuses what is none.
local function read_other(key, value)
  if #value ~= 40 then
    return
  end
  local m, part, p, n, b = struct.unpack('>ddddd', value)
  if not (whole(m) and whole(part) and whole(p) and whole(n) and whole(b)) then
    return
  end
  if p == 0 or n == 0 or b == 0 or part >= n then
    return
  end
  local r = p % n
  local q = (p - r) / n
  if b * r + n >= LIMIT or b * (q + 1) >= LIMIT then
    return
  end
  local far_m, far_p = time_of(b, q, r, n)
  far_m = now + far_m
  if m > far_m or (m == far_m and part > far_p) then
    -- Left by a clock that has stepped back: as fully used now.
    m, part = far_m, far_p
    writes[key] = 2
  end
  micros[key], parts[key] = m, part
  others[key] = { period = p, units = n, burst = b, q = q, r = r, suffix = string.sub(value, 17) }
end

local values = redis.call('MGET', unpack(KEYS))
for key = 1, #KEYS do
  local value = values[key]
  if not value then
    micros[key], parts[key] = 0, 0
  elseif string.sub(value, 17) == numbers then
    local m, part = struct.unpack('>dd', value)
    if whole(m) and whole(part) and part < units then
      if m > far_micros or (m == far_micros and part > far_part) then
        m, part = far_micros, far_part
        writes[key] = 2
      end
      micros[key], parts[key] = m, part
    end
  else
    read_other(key, value)
  end
end

-- A TTL reaches to the second next multiple of ttl_step after the arrival, so that it need not be
-- set anew until the arrival passes a multiple, and never ends early.
local function stretch(arrival_micros)
  return math.floor(arrival_micros / ttl_step)
end

-- Charges the state of a key, and tells what became of it.
local function charge(key, cost, cost_micros, cost_part)
  local m, part = micros[key], parts[key]
  if not m then
    return UNREADABLE
  end
  if cost == 0 then
    return ADMITTED
  end
  if cost > burst then
    return IMPOSSIBLE
  end
  local other = others[key]
  if other then
    local used = units_used(m, part, other)
    if used + cost > burst then
      return REFUSED
    end
    m, part = time_of(used, unit_micros, unit_part, units)
    m = m + now
  elseif m < now then
    m, part = now, 0
  end
  m, part = m + cost_micros, part + cost_part
  if part >= units then
    m, part = m + 1, part - units
  end
  if m > far_micros or (m == far_micros and part > far_part) then
    return REFUSED
  end
  if not values[key] then
    writes[key] = 3
  elseif other or stretch(m) ~= stretch(micros[key]) then
    writes[key] = 2
  elseif not writes[key] then
    writes[key] = 1
  end
  micros[key], parts[key], others[key] = m, part, nil
  return ADMITTED
end

-- By call: its key, its outcome, and the state that it left.
local keys_of, outcomes, left_micros, left_parts, left_others = {}, {}, {}, {}, {}

local function decide(call, key, cost, cost_micros, cost_part)
  keys_of[call], outcomes[call] = key, charge(key, cost, cost_micros, cost_part)
  left_micros[call], left_parts[call], left_others[call] = micros[key], parts[key], others[key]
end

if ARGV[2] == '' then
  for key = 1, #KEYS do
    decide(key, key, 1, unit_micros, unit_part)
  end
else
  local position, call, key, cost, cost_micros, cost_part = 1, 0
  while position <= #ARGV[2] do
    key, cost, cost_micros, cost_part, position = struct.unpack('>I2ddd', ARGV[2], position)
    call = call + 1
    decide(call, key, cost, cost_micros, cost_part)
  end
end

-- Everything is decided: now write. A key that cannot be written fails by itself.
local failed = {}
for key, how in pairs(ARGV[3] == 'peek' and {} or writes) do
  local other = others[key]
  local value = struct.pack('>dd', micros[key], parts[key]) .. (other and other.suffix or numbers)
  local answer
  if how == 1 then
    answer = redis.pcall('SET', KEYS[key], value, 'KEEPTTL')
  else
    local ttl = math.ceil(((stretch(micros[key]) + 2) * ttl_step - now) / 1000)
    if how == 2 then
      answer = redis.pcall('SET', KEYS[key], value, 'PX', ttl)
    else
      -- MGET cannot tell a missing key from one of another type: that one must not be overwritten.
      answer = redis.pcall('SET', KEYS[key], value, 'PX', ttl, 'NX')
    end
  end
  if not answer then
    failed[key] = UNREADABLE
  elseif answer.err then
    failed[key] = answer.err
  end
end

local answer, length = { now }, 1
for call = 1, #outcomes do
  local outcome, failure, other = outcomes[call], failed[keys_of[call]], left_others[call]
  if failure == UNREADABLE or outcome == UNREADABLE then
    length = length + 1
    answer[length] = UNREADABLE
  elseif failure then
    answer[length + 1], answer[length + 2] = UNWRITTEN, failure
    length = length + 2
  elseif other then
    answer[length + 1], answer[length + 2], answer[length + 3] = outcome + OTHER, left_micros[call], left_parts[call]
    answer[length + 4], answer[length + 5], answer[length + 6] = other.period, other.units, other.burst
    length = length + 6
  else
    answer[length + 1], answer[length + 2], answer[length + 3] = outcome, left_micros[call], left_parts[call]
    length = length + 3
  end
end
return answer
