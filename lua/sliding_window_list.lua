-- The sliding window's buckets as a list.
--
-- An element is an entry, oldest first, in four doubles: the bucket's end; the running total of units before and
-- after it; and when the key settles, which is so of the newest. What counts is the newest's total less that
-- before the oldest that counts: two elements tell, and a call that adds to the newest writes one, however many
-- buckets there are. Elements are found by their place, never by their value.
--
-- What has expired stays at the head until a call is admitted: the first element that counts, and the one with
-- which enough units cease to count, are searched for by halving.

local call = redis.pcall

-- By key: the places and the numbers of what was read. `gone` elements at the head do not count; nil if none of
-- the list does.
local gone = {}
local first_end, first_before, first_after = {}, {}, {}
local last_before, last_after = {}, {}

-- The element at a place, if there is one that can be read.
local function element(key, place)
  local value = call('LINDEX', names[key], place)
  if type(value) ~= 'string' or #value ~= 32 then
    return nil, value
  end
  local entry_end, before, after, settles = unpack_struct('>dddd', value)
  if
    entry_end > 0 and entry_end < LIMIT and settles > 0 and settles < LIMIT
    and before >= 0 and before <= after and after < LIMIT
    and entry_end % 1 + before % 1 + after % 1 + settles % 1 == 0
  then
    return entry_end, before, after, settles
  end
end

-- The first element behind a place that ends later than a time and has a total no less than the given: the
-- newest has, and those before the first have not. In growing steps, and then by halving.
local function first_behind(key, low, later, least)
  local high, step = low + 1, 1
  local found_end, found_before, found_after
  while true do
    local entry_end, before, after = element(key, high)
    if not entry_end or (entry_end > later and after >= least) then
      found_end, found_before, found_after = entry_end, before, after
      break
    end
    low, step = high, step * 2
    high = low + step
  end
  while high - low > 1 do
    local place = math.floor((low + high) / 2)
    local entry_end, before, after = element(key, place)
    if not entry_end or (entry_end > later and after >= least) then
      high, found_end, found_before, found_after = place, entry_end, before, after
    else
      low = place
    end
  end
  return high, found_end, found_before, found_after
end

local function read(key)
  local newest_end, before, after, settles = element(key, '-1')
  if not newest_end then
    if before == false then
      return 0, 0, 0
    end
    return
  end
  last_before[key], last_after[key] = before, after
  if now >= settles or newest_end <= horizon then
    return newest_end, 0, settles
  end
  local place, entry_end, total_before, total_after = 0, element(key, '0')
  if entry_end and entry_end <= horizon then
    place, entry_end, total_before, total_after = first_behind(key, 0, horizon, 0)
  end
  if not entry_end or total_before > after then
    return
  end
  gone[key] = place
  first_end[key], first_before[key], first_after[key] = entry_end, total_before, total_after
  return newest_end, after - total_before, settles
end

local function end_with(key, units)
  local least = first_before[key] + units
  if first_after[key] >= least then
    return first_end[key]
  end
  local _, entry_end = first_behind(key, gone[key], horizon, least)
  return entry_end
end

-- Drops all elements but so many.
local function keep(key, count)
  return write('LTRIM', names[key], -count, '-1')
end

-- Writes what counts anew, with totals from 0 on. It happens once in 2^53 units.
local function restart(key)
  local values = call('LRANGE', names[key], gone[key], '-1')
  local base, total = first_before[key], last_after[key] - first_before[key] + added[key]
  for index, value in ipairs(values) do
    local entry_end, before, after, settles = unpack_struct('>dddd', value)
    values[index] = pack('>dddd', entry_end, before - base, after - base, settles)
  end
  if opened[key] then
    values[#values + 1] = pack('>dddd', newest[key], total - added[key], total, settled[key])
  else
    values[#values] = pack('>dddd', newest[key], last_before[key] - base, total, settled[key])
  end
  local written = write('RPUSH', names[key], unpack(values))
  return type(written) == 'table' and written or keep(key, #values)
end

-- Where Redis is short of memory it refuses what may add to a list, but nothing once something is written: so
-- what is dropped goes last.
local function save(key)
  local place = gone[key]
  if rebased[key] or not place then
    local value = pack('>dddd', newest[key], 0, used[key], settled[key])
    local written = write('RPUSH', names[key], value)
    if type(written) == 'table' or old_newest[key] == 0 then
      return written
    end
    return keep(key, 1)
  end
  local before, after = last_before[key], last_after[key]
  local total = after + added[key]
  if total >= LIMIT then
    return restart(key)
  end
  local written
  if opened[key] then
    written = write('RPUSH', names[key], pack('>dddd', newest[key], after, total, settled[key]))
  else
    written = write('LSET', names[key], '-1', pack('>dddd', newest[key], before, total, settled[key]))
  end
  if place == 0 or (type(written) == 'table' and written.err) then
    return written
  end
  return write('LTRIM', names[key], place == 1 and '1' or place, '-1')
end

return decide_all(read, end_with, save)
