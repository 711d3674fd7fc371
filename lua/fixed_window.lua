-- The twin of src/algorithm/fixed_window.rs.
--
-- A value is the window's end and its count. Where both fit, it is one integer,
-- (end - EPOCH) * 8192 + count, which INCRBY moves on; otherwise it is the text 'end:count'. Ends are in
-- milliseconds. From the Unix epoch, end * 8192 would pass 2^53 and lose the count's last bit; from 2020
-- it fits until 2054.
--
-- ARGV[1]  the policy: limit, window in microseconds
-- ARGV[2]  for each call: the number of its key and its cost; '' if there is one call for each key and
--          each costs one unit
-- ARGV[3]  'peek': nothing is written
--
-- Answers as batch.lua says; a state's numbers are the window's end and its count.

local limit, window = struct.unpack('>dd', ARGV[1])
local new_end = math.ceil((now + window) / 1000)

local EPOCH, COUNTS, SPAN = 1577836800000, 8192, 1099511627776
local LIMIT = 9007199254740992

-- By key: the window. Nil is a value that cannot be read.
local ends, counts = {}, {}
-- By key: whether the value is packed.
local packed = {}
-- By key: the units that are added to the window that is stored.
local more = {}

-- A window that ends later than one opened now was left by a clock that has stepped back, or by a longer
-- window: a full one from now.
local function keep(key, window_end, count)
  if window_end > new_end then
    window_end, count = new_end, math.max(count, limit)
    mark(key, 2)
  end
  ends[key], counts[key] = window_end, count
end

local function read_text(key, value)
  local window_end, count = string.match(value, '^(%d+):(%d+)$')
  window_end, count = tonumber(window_end), tonumber(count)
  if window_end and window_end < LIMIT and count < LIMIT then
    keep(key, window_end, count)
  end
end

local values = redis.call('MGET', unpack(KEYS))

local function read(key)
  local value = values[key]
  if not value then
    ends[key], counts[key] = 0, 0
  else
    -- A packed end later than the first day of 2020 has 12 digits or more.
    local number = #value >= 12 and #value <= 16 and tonumber(value)
    if number and number >= 0 and number % 1 == 0 then
      local count = number % COUNTS
      packed[key] = true
      keep(key, (number - count) / COUNTS + EPOCH, count)
    else
      read_text(key, value)
    end
  end
end

-- Charges the state of a key, and tells what became of it.
local function charge(key, cost)
  local window_end = ends[key]
  if not window_end then
    return UNREADABLE
  end
  if cost == 0 then
    return ADMITTED
  end
  if cost > limit then
    return IMPOSSIBLE
  end
  if window_end * 1000 <= now then
    ends[key], counts[key] = new_end, cost
    mark(key, values[key] and 2 or 3)
    return ADMITTED
  end
  local count = counts[key] + cost
  if count > limit then
    return REFUSED
  end
  counts[key] = count
  more[key] = (more[key] or 0) + cost
  mark(key, 1)
  return ADMITTED
end

local function decide(key, cost)
  local outcome = charge(key, cost)
  calls = calls + 1
  answer[length + 1], answer[length + 2], answer[length + 3] = outcome, ends[key] or 0, counts[key] or 0
  length = length + 3
end

-- Keys whose packed value needs no more than one unit more.
local counted = {}

if ARGV[2] == '' then
  -- One unit for each key, by far the most frequent batch: what the functions above do, without their calls
  -- and tables, for a key whose packed window is open and has room for a unit.
  local first_open = (math.floor(now / 1000) + 1 - EPOCH) * COUNTS
  local first_beyond = (new_end + 1 - EPOCH) * COUNTS
  for key = 1, keys do
    local value, number, count = values[key]
    if value and #value >= 12 and #value <= 16 then
      number = tonumber(value)
    end
    if number and number >= first_open and number < first_beyond and number % 1 == 0 then
      count = number % COUNTS + 1
    end
    if count and count <= limit and count < COUNTS then
      calls = calls + 1
      answer[length + 1], answer[length + 2] = ADMITTED, (number + 1 - count) / COUNTS + EPOCH
      answer[length + 3] = count
      length = length + 3
      counted[#counted + 1] = key
    else
      read(key)
      decide(key, 1)
    end
  end
else
  for key = 1, keys do
    read(key)
  end
  local position, key, cost = 1
  keys_of = {}
  while position <= #ARGV[2] do
    key, cost, position = struct.unpack('>I2d', ARGV[2], position)
    keys_of[calls + 1] = key
    decide(key, cost)
  end
end

if ARGV[3] == 'peek' then
  return answer
end

-- Everything is decided: now write.
for _, key in ipairs(counted) do
  check(key, write('INCRBY', names[key], 1))
end

for _, key in ipairs(dirty) do
  local window_end, count = ends[key], counts[key]
  if how[key] == 1 and packed[key] and count < COUNTS then
    check(key, write('INCRBY', names[key], more[key]))
  else
    local since = window_end - EPOCH
    local packs = count < COUNTS and since > 86400000 and since < SPAN
    local value = packs and since * COUNTS + count or string.format('%.0f:%.0f', window_end, count)
    -- One millisecond more: Redis's clock for expiry may lag behind this script's.
    save(key, value, window_end - math.floor(now / 1000) + 1)
  end
end

return readonly or answer
