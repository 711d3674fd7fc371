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
-- Answers a flat list: now, and for each call an outcome and what belongs to it (see outcome.lua).

local limit, window = struct.unpack('>dd', ARGV[1])
local new_end = math.ceil((now + window) / 1000)

local EPOCH, COUNTS, SPAN = 1577836800000, 8192, 1099511627776
local LIMIT = 9007199254740992

-- By key: the window. Nil is a value that cannot be read.
local ends, counts = {}, {}
-- By key: what is to be written: 1 more units in the window that is stored, 2 another one, 3 if there
-- was none.
local writes, more = {}, {}

local function read(key, value)
  local window_end, count
  if #value <= 16 and string.find(value, '^%d+$') then
    local packed = tonumber(value)
    count = packed % COUNTS
    window_end = (packed - count) / COUNTS + EPOCH
  else
    window_end, count = string.match(value, '^(%d+):(%d+)$')
    window_end, count = tonumber(window_end), tonumber(count)
  end
  if not window_end or window_end >= LIMIT or count >= LIMIT then
    return
  end
  if window_end > new_end then
    -- Left by a clock that has stepped back, or by a longer window: a full one from now.
    window_end, count = new_end, math.max(count, limit)
    writes[key] = 2
  end
  ends[key], counts[key] = window_end, count
end

local values = redis.call('MGET', unpack(KEYS))
for key = 1, #KEYS do
  if values[key] then
    read(key, values[key])
  else
    ends[key], counts[key] = 0, 0
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
    writes[key] = values[key] and 2 or 3
    return ADMITTED
  end
  local count = counts[key] + cost
  if count > limit then
    return REFUSED
  end
  counts[key] = count
  if not writes[key] or writes[key] == 1 then
    writes[key], more[key] = 1, (more[key] or 0) + cost
  end
  return ADMITTED
end

-- By call: its key, its outcome, and the state that it left.
local keys_of, outcomes, left_ends, left_counts = {}, {}, {}, {}

local function decide(call, key, cost)
  keys_of[call], outcomes[call] = key, charge(key, cost)
  left_ends[call], left_counts[call] = ends[key], counts[key]
end

if ARGV[2] == '' then
  for key = 1, #KEYS do
    decide(key, key, 1)
  end
else
  local position, call, key, cost = 1, 0
  while position <= #ARGV[2] do
    key, cost, position = struct.unpack('>I2d', ARGV[2], position)
    call = call + 1
    decide(call, key, cost)
  end
end

-- Everything is decided: now write. A key that cannot be written fails by itself.
local failed = {}
for key, how in pairs(ARGV[3] == 'peek' and {} or writes) do
  local window_end, count, answer = ends[key], counts[key]
  local since = window_end - EPOCH
  local packs = count < COUNTS and since >= 0 and since < SPAN
  if how == 1 and packs and not string.find(values[key], ':', 1, true) then
    answer = redis.pcall('INCRBY', KEYS[key], more[key])
  else
    local value = packs and since * COUNTS + count or string.format('%.0f:%.0f', window_end, count)
    if how == 1 then
      answer = redis.pcall('SET', KEYS[key], value, 'KEEPTTL')
    else
      -- One millisecond more: Redis's clock for expiry may lag behind this script's.
      local ttl = window_end - math.floor(now / 1000) + 1
      if how == 2 then
        answer = redis.pcall('SET', KEYS[key], value, 'PX', ttl)
      else
        -- MGET cannot tell a missing key from one of another type: that one must not be overwritten.
        answer = redis.pcall('SET', KEYS[key], value, 'PX', ttl, 'NX')
      end
    end
  end
  if not answer then
    failed[key] = UNREADABLE
  elseif type(answer) == 'table' and answer.err then
    failed[key] = answer.err
  end
end

local answer, length = { now }, 1
for call = 1, #outcomes do
  local outcome, failure = outcomes[call], failed[keys_of[call]]
  if failure == UNREADABLE or outcome == UNREADABLE then
    length = length + 1
    answer[length] = UNREADABLE
  elseif failure then
    answer[length + 1], answer[length + 2] = UNWRITTEN, failure
    length = length + 2
  else
    answer[length + 1], answer[length + 2], answer[length + 3] = outcome, left_ends[call], left_counts[call]
    length = length + 3
  end
end
return answer
