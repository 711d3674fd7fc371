-- The twin of src/algorithm/fixed_window.rs and of src/algorithm/calendar_window.rs.
--
-- A value is the window's end and its count. Where both fit, it is one integer,
-- (end - EPOCH) * 8192 + count, which INCRBY moves on; otherwise it is the text 'end:count'. Ends are in
-- milliseconds. From the Unix epoch, end * 8192 would pass 2^53 and lose the count's last bit; from 2020
-- it fits until 2054.
--
-- A policy is the limit, the window in microseconds, and 1 if a refused call uses up the window. That of a
-- calendar has 0 for its window; then follow its horizon in microseconds, and BOUNDARIES of its boundaries around
-- the time, in milliseconds. A state's two numbers are the window's end and its count.

local values = redis.call('MGET', unpack(KEYS))

-- The policy of the group whose calls are decided, the end of a window that opens now, and the latest end that
-- a window can have now.
local limit, counts_refused, new_end, latest_end

local EPOCH, COUNTS, SPAN = 1577836800000, 8192, 1099511627776
local LIMIT = 9007199254740992

-- By key: the window. Nil is a value that cannot be read.
local ends, counts = {}, {}
-- By key: whether the value is packed.
local packed = {}
-- By key: the units that are added to the window that is stored.
local more = {}
-- The states that the calls left.
local states, length = {}, 0

-- A window that ends later than any can now was left by a clock that has stepped back, or by a longer
-- window: a full one from now.
local function keep(key, window_end, count)
  if window_end > latest_end then
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
    local left = limit - counts[key]
    if counts_refused == 1 and left > 0 then
      counts[key] = limit
      more[key] = (more[key] or 0) + left
      mark(key, 1)
    end
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
  key_of[calls] = key
  if outcome ~= ADMITTED then
    outcomes[calls] = outcome
  end
  states[length + 1], states[length + 2] = ends[key] or 0, counts[key] or 0
  length = length + 2
end

local function save_all()
  for _, key in ipairs(dirty) do
    local window_end, count = ends[key], counts[key]
    if how[key] == 1 and packed[key] and count < COUNTS then
      local written = write('INCRBY', names[key], more[key])
      if type(written) ~= 'number' then
        fail(key, 1, written)
      end
    else
      local since = window_end - EPOCH
      local packs = count < COUNTS and since > 86400000 and since < SPAN
      local value = packs and since * COUNTS + count or string.format('%.0f:%.0f', window_end, count)
      -- One millisecond more: Redis's clock for expiry may lag behind this script's.
      local ttl = window_end - math.floor(now / 1000) + 1
      save(key, value, ttl)
    end
  end
  dirty = {}
end

-- Reads a calendar from the request, and tells where that goes on. If none of its windows is open now, there is no
-- end for a new one.
local BOUNDARIES = 8
local CALENDAR = '>d' .. string.rep('d', BOUNDARIES)

local function read_calendar(at)
  local numbers = { struct.unpack(CALENDAR, request, at) }
  latest_end, new_end = math.floor((now + numbers[1]) / 1000), nil
  for index = 3, BOUNDARIES + 1 do
    if numbers[index] * 1000 > now then
      if numbers[index - 1] * 1000 <= now then
        new_end = numbers[index]
      end
      break
    end
  end
  return numbers[BOUNDARIES + 2]
end

-- The least packed value of a window that is open.
local first_open = (math.floor(now / 1000) + 1 - EPOCH) * COUNTS

local at, before = 1, 0
while at <= #request do
  local count, listed, window
  count, listed, limit, window, counts_refused, at = struct.unpack('>I2I2ddd', request, at)
  if window > 0 then
    new_end = math.ceil((now + window) / 1000)
    latest_end = new_end
  else
    at = read_calendar(at)
  end

  if not new_end then
    for call = calls + 1, calls + (listed == 0 and count or listed) do
      outcomes[call] = STALE
      states[length + 1], states[length + 2] = 0, 0
      length, calls = length + 2, call
    end
    -- Each listed call has the number of its key and its cost.
    at = at + listed * 10
  elseif listed == 0 then
    -- One unit for each key, by far the most frequent group: what the functions above do, without their
    -- calls and tables, for a key whose packed window is open and has room for a unit.
    local first_beyond = (latest_end + 1 - EPOCH) * COUNTS
    local most = math.min(limit, COUNTS - 1)
    for key = before + 1, before + count do
      local number = tonumber(values[key])
      local used = number and number % COUNTS
      if number and number >= first_open and number < first_beyond and used < most and used % 1 == 0 then
        calls = calls + 1
        states[length + 1], states[length + 2] = (number - used) / COUNTS + EPOCH, used + 1
        length = length + 2
        -- A number among a command's arguments would be printed and read again, at a quarter of the
        -- command's time.
        local written = write('INCRBY', names[key], '1')
        if written ~= number + 1 then
          key_of[calls] = key
          fail(key, calls, written)
        end
      else
        read(key)
        decide(key, 1)
      end
    end
  else
    for key = before + 1, before + count do
      read(key)
    end
    for _ = 1, listed do
      local key, cost
      key, cost, at = struct.unpack('>I2d', request, at)
      decide(before + key, cost)
    end
  end
  if not peeks then
    save_all()
  end
  before = before + count
end

return answered(struct.pack('>' .. string.rep('d', length), unpack(states)))
