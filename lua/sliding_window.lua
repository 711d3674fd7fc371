-- The twin of src/algorithm/sliding_window.rs, for both layouts of the buckets.
--
-- A bucket is `width` long; an entry is its end and the units admitted in it. With the entries a key holds
-- when it settles under the numbers that wrote it last: from then on it counts for nobody.
--
-- A policy is the limit, the width and the span of all buckets. Of a state is told: the limit, the largest
-- cost that fits, the first time at which a refused cost fits, and when the key settles.
--
-- A layout (sliding_window_list.lua, sliding_window_hash.lua) brings three functions:
--   read(key)         the newest entry's end, the units that count, when the key settles; 0 for what is not
--                     there, and nothing if the key cannot be read
--   end_with(key, n)  the end of the stored entry with which at least n of the stored units cease to count, if
--                     that can be read
--   save(key)         writes what the calls changed; answers as a command does

local pack, unpack_struct, format = struct.pack, struct.unpack, string.format
local LIMIT = 9007199254740992
local SHORTEST_TTL_STEP = 1000000

-- The policy of the group whose calls are decided; the end of the bucket of now; an entry counts if it ends
-- later than `horizon`, and was left by a clock step if it ends later than `far`.
local limit, width, span, own_end, horizon, far

-- By key: the newest entry's end, when the key settles, and the units that count; as read, and as the calls
-- left them. Nil is a key that cannot be read.
local old_newest, old_settled, old_used = {}, {}, {}
local newest, settled, used = {}, {}, {}
-- By key: the units added to the newest entry; whether it is a new one; whether it replaces all others.
local added, opened, rebased = {}, {}, {}

-- Whether a number read from a key is one that was written: whole, and counted exactly.
local function whole(number)
  return number and number >= 0 and number < LIMIT and number % 1 == 0
end

-- The first time at which an entry does not count.
local function ceases_at(entry_end)
  local rest = entry_end % width
  return (rest > 0 and entry_end - rest + width or entry_end) + span
end

local function understand(key, read)
  local entry_end, units, settles = read(key)
  if not entry_end then
    return
  end
  old_newest[key], old_used[key], old_settled[key] = entry_end, units, settles
  if entry_end > far then
    -- As fully used now.
    units, entry_end, settles = math.max(units, limit), own_end, own_end + span
    rebased[key] = true
    mark(key, 2)
  end
  newest[key], used[key], settled[key], added[key] = entry_end, units, settles, 0
end

-- Charges the state of a key, and tells what became of it.
local function charge(key, cost)
  local units = used[key]
  if not units then
    return UNREADABLE
  end
  if cost == 0 then
    return ADMITTED
  end
  if cost > limit then
    return IMPOSSIBLE
  end
  if cost > limit - units then
    return REFUSED
  end
  if peeks then
    return ADMITTED
  end
  if own_end > newest[key] then
    newest[key] = own_end
    opened[key] = true
  end
  used[key] = units + cost
  added[key] = added[key] + cost
  settled[key] = ceases_at(newest[key])
  mark(key, 1)
  return ADMITTED
end

-- The first time at which a cost that was refused would be admitted.
local function retry_at(key, cost, end_with)
  local units, entry_end = used[key] - limit + cost, newest[key]
  -- What the calls before have added is in the newest entry.
  if not rebased[key] and units <= old_used[key] then
    entry_end = end_with(key, units) or entry_end
  end
  return math.min(ceases_at(entry_end), settled[key])
end

-- Until when a key is kept whose newest entry and settling are these. A TTL reaches to the second next multiple
-- of a window after the settling, so that it need not be set anew with each bucket. It follows from what is
-- stored, whoever wrote it: so also another version knows how far a TTL reaches.
local function kept_until(entry_end, settles)
  local step = math.max(settles - entry_end, SHORTEST_TTL_STEP)
  return settles - settles % step + 2 * step
end

local function save_all(save)
  for _, key in ipairs(dirty) do
    local written = save(key)
    if type(written) == 'table' and written.err then
      fail(key, 1, written)
    else
      local kept = kept_until(newest[key], settled[key])
      if rebased[key] or old_newest[key] == 0 or kept > kept_until(old_newest[key], old_settled[key]) then
        local ttl = math.ceil((kept - now) / 1000)
        written = write('PEXPIRE', names[key], ttl)
        if type(written) == 'table' then
          fail(key, 1, written)
        end
      end
    end
  end
  dirty = {}
end

-- Decides all that is asked, by a layout's functions; `quick` may decide one unit on a key, and write it, at once.
local function decide_all(read, end_with, save, quick)
  local states = {}
  local function decide(key, cost)
    local outcome = charge(key, cost)
    calls = calls + 1
    key_of[calls] = key
    local retry = 0
    if outcome ~= ADMITTED then
      outcomes[calls] = outcome
      if outcome == REFUSED then
        retry = retry_at(key, cost, end_with)
      end
    end
    local remaining = used[key] and math.max(limit - used[key], 0) or 0
    states[calls] = pack('>dddd', limit, remaining, retry, settled[key] or 0)
  end

  local at, before = 1, 0
  while at <= #request do
    local count, listed
    count, listed, limit, width, span, at = unpack_struct('>I2I2ddd', request, at)
    local start = now - now % width
    own_end, horizon = start + width, start - span
    far = own_end + span
    for key = before + 1, before + count do
      local state = listed == 0 and quick and quick(key)
      if state then
        calls = calls + 1
        states[calls] = state
      else
        understand(key, read)
        if listed == 0 then
          decide(key, 1)
        end
      end
    end
    for _ = 1, listed do
      local key, cost
      key, cost, at = unpack_struct('>I2d', request, at)
      decide(before + key, cost)
    end
    if not peeks then
      save_all(save)
    end
    before = before + count
  end
  return answered(table.concat(states))
end
