-- The twin of src/algorithm/sliding_window.rs, for both layouts of the buckets.
--
-- A bucket is `width` long; an entry is its end and the units admitted in it. With the entries a key holds
-- when it settles under the numbers that wrote it last: from then on it counts for nobody.
--
-- A policy is the limit, the width and the span of all buckets. Of a state is told: the limit, the largest
-- cost that fits, the first time at which a refused cost fits, and when the key settles.

-- A layout (sliding_window_list.lua, sliding_window_hash.lua) is given the window, and brings three functions:
--   read(key)         the newest entry's end, the units that count, when the key settles; 0 for what is not
--                     there, and nothing if the key cannot be read
--   end_with(key, n)  the end of the stored entry with which at least n of the stored units cease to count, if
--                     that can be read
--   write(key)        writes what the calls changed, and what stands behind the state; answers as a command does
--   give_back(key, units, entry_end)  takes units from a stored entry, which must be written already, and tells how many
local function sliding_window(round, source, at, layout)
  local ADMITTED, REFUSED, IMPOSSIBLE, UNREADABLE = round.ADMITTED, round.REFUSED, round.IMPOSSIBLE, round.UNREADABLE
  local limit, width, span, after = struct.unpack('>ddd', source, at)
  local own_end, horizon, far = bucket_of(round.now, width, span)
  local dirty, how, mark = new_marks()

  -- By key: the newest entry's end, when the key settles, and the units that count; as read, and as the calls
  -- left them. Nil is a key that cannot be read.
  local old_newest, old_settled, old_used = {}, {}, {}
  local newest, settled, used = {}, {}, {}
  -- By key: the units added to the newest entry; whether it is a new one; whether it replaces all others.
  local added, opened, rebased = {}, {}, {}
  -- By key: what stands behind the state.
  local trailers = {}
  local read_layout, end_with, write, give_back = layout({
    now = round.now, horizon = horizon, newest = newest, settled = settled, used = used,
    old_newest = old_newest, old_settled = old_settled, added = added, opened = opened, rebased = rebased,
    trailers = trailers,
  })

  -- The first time at which an entry does not count.
  local function ceases_at(entry_end)
    local rest = entry_end % width
    return (rest > 0 and entry_end - rest + width or entry_end) + span
  end

  local function read(key)
    local entry_end, units, settles = read_layout(key)
    if not entry_end then
      return
    end
    old_newest[key], old_used[key], old_settled[key] = entry_end, units, settles
    if entry_end > far then
      -- A clock step, or a version with much wider buckets, has left it: all that counts moves into the bucket of now.
      entry_end, settles = own_end, own_end + span
      rebased[key] = true
      mark(key, 2)
    end
    newest[key], used[key], settled[key], added[key] = entry_end, units, settles, 0
  end

  local function admits(key, cost)
    local units = used[key]
    if not units then
      return UNREADABLE
    end
    if cost > limit then
      return IMPOSSIBLE
    end
    if cost > 0 and cost > limit - units then
      return REFUSED
    end
    return ADMITTED
  end

  local function charge(key, cost)
    if own_end > newest[key] then
      newest[key] = own_end
      opened[key] = true
    end
    used[key] = used[key] + cost
    added[key] = added[key] + cost
    settled[key] = ceases_at(newest[key])
    mark(key, 1)
  end

  -- The first time at which a cost that was refused would be admitted.
  local function retry_at(key, cost)
    local units, entry_end = used[key] - limit + cost, newest[key]
    -- What the calls before have added is in the newest entry.
    if not rebased[key] and units <= old_used[key] then
      entry_end = end_with(key, units) or entry_end
    end
    return math.min(ceases_at(entry_end), settled[key])
  end

  local function tell(key, cost, outcome)
    local remaining = used[key] and math.max(limit - used[key], 0) or 0
    local retry = outcome == REFUSED and retry_at(key, cost) or 0
    return struct.pack('>dddd', limit, remaining, retry, settled[key] or 0)
  end

  -- What was taken in a bucket comes back as long as that counts.
  local function refund(key, units, at)
    local entry_end = bucket_of(at, width, span)
    if entry_end <= horizon or round.now >= settled[key] then
      return 0
    end
    local back = give_back(key, units, entry_end)
    return back, back > 0 and back == used[key]
  end

  local function touch(key)
    mark(key, 2)
  end

  local function save_buckets(key)
    local written = write(key)
    if type(written) == 'table' and written.err then
      return written
    end
    local kept = kept_until(newest[key], settled[key])
    if
      rebased[key] or old_newest[key] == 0 or round.extras[key]
      or kept > kept_until(old_newest[key], old_settled[key])
    then
      local ttl = math.max(math.ceil((kept - round.now) / 1000), extras_ttl(round, key))
      if ttl <= 0 then
        -- The key is as if never used.
        written = redis.pcall('UNLINK', KEYS[key])
      else
        ttl = string.format('%.0f', ttl)
        written = redis.pcall('PEXPIRE', KEYS[key], ttl)
      end
      if type(written) == 'table' then
        return written
      end
    end
  end

  return {
    after = after, tells = true, writes_refunds = true, dirty = dirty, how = how, trailers = trailers, read = read, admits = admits,
    charge = charge, refund = refund, tell = tell, touch = touch, save = save_buckets,
  }
end
