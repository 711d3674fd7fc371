-- The twin of src/algorithm/sliding_window.rs, for both layouts of the buckets.
--
-- A bucket is `width` microseconds long. An entry is a bucket's end and the units admitted in it. A
-- key also stores its reset time, under the numbers that wrote it last. From then on no entry
-- counts.
--
-- A policy is the limit, the width, and the span of all buckets. A state in the reply is the limit,
-- the largest cost that fits, the first time at which a refused cost fits, that at which a cost of 1
-- fits, and the reset time.
--
-- A layout (list.lua, hash.lua) receives the window's tables, and returns four functions:
--
-- read(key)         returns the newest entry's end, the units that count, and the reset time; 0 for
--                   each if the key is missing, and nil if it cannot be read
-- end_with(key, n)  returns the end of the stored entry with whose expiry at least n of the stored
--                   units no longer count, or nil if that cannot be read
-- write(key)        writes the changes of the calls and the metadata; returns a command's reply
-- refund_entry(key, units, entry_end)
--                   removes units from an entry that has been written, and returns their number

local function sliding_window(context, source, at, layout)
  local limit, width, span, after = struct.unpack('>ddd', source, at)
  local current_end, horizon, max_end = bucket_of(context.now, width, span)
  local dirty_keys, write_modes, mark_dirty, mark_rewrite = new_dirty_keys()

  -- By key: the newest entry's end, the reset time, and the units that count, as read and after the
  -- calls; nil if the key cannot be read.
  local old_newest, old_reset_times, old_used = {}, {}, {}
  local newest, reset_times, used = {}, {}, {}
  -- By key: the units added to the newest entry, whether that entry is new, and whether it replaces
  -- all others.
  local added, new_entries, rebased = {}, {}, {}
  -- By key: the encoded metadata after the state.
  local suffixes = {}
  -- By key: whether the stored entries are too far ahead, and have not been repaired.
  local is_kept = {}
  local read_layout, end_with, write_layout, refund_entry = layout({
    now = context.now, horizon = horizon, newest = newest, reset_times = reset_times, used = used,
    old_newest = old_newest, old_reset_times = old_reset_times, added = added, new_entries = new_entries,
    rebased = rebased, suffixes = suffixes,
  })

  -- The first time at which an entry does not count.
  local function expires_at(entry_end)
    local rest = entry_end % width
    return (rest > 0 and entry_end - rest + width or entry_end) + span
  end

  local function read(key)
    local entry_end, units, reset_at = read_layout(key)
    if not entry_end then
      return
    end
    old_newest[key], old_used[key], old_reset_times[key] = entry_end, units, reset_at
    if entry_end > max_end then
      -- Written before a clock step, or by a version with much wider buckets: all units that count
      -- move into the current bucket.
      is_kept[key], rebased[key] = true, true
      entry_end, reset_at = current_end, current_end + span
    end
    newest[key], used[key], reset_times[key], added[key] = entry_end, units, reset_at, 0
  end

  local function repair(key)
    if is_kept[key] then
      is_kept[key] = nil
      mark_dirty(key, 2)
      return old_reset_times[key]
    end
  end

  local function outcome_of(key, cost)
    local units = used[key]
    if not units then
      return OUTCOME_UNREADABLE
    end
    if cost > limit then
      return OUTCOME_IMPOSSIBLE
    end
    if cost > 0 and cost > limit - units then
      return OUTCOME_REFUSED
    end
    return OUTCOME_ADMITTED
  end

  -- Whether a policy with these numbers wrote the entries last, as far as they show it.
  local function wrote(key)
    -- A list without entries has an element that ends at 1, for its metadata.
    return newest[key] <= 1 or (newest[key] % width == 0 and newest[key] + span == reset_times[key])
  end

  local function charge(key, cost)
    if not wrote(key) then
      renumber(context, key, reset_times[key])
    end
    if current_end > newest[key] then
      newest[key] = current_end
      new_entries[key] = true
    end
    used[key] = used[key] + cost
    added[key] = added[key] + cost
    reset_times[key] = expires_at(newest[key])
    mark_dirty(key, 1)
  end

  -- The first time at which a refused cost would be admitted.
  local function retry_at(key, cost)
    local units, entry_end = used[key] - limit + cost, newest[key]
    -- Units that earlier calls of this script added are in the newest entry.
    if not rebased[key] and units <= old_used[key] then
      entry_end = end_with(key, units) or entry_end
    end
    return math.min(expires_at(entry_end), reset_times[key])
  end

  local function encode_state(key, cost, outcome, owed)
    local remaining = used[key] and math.max(limit - used[key], 0) or 0
    -- The owed units are paid before the costs.
    local retry = outcome == OUTCOME_REFUSED and retry_at(key, math.min(owed + cost, limit)) or 0
    local next_at, next_cost = 0, math.min(owed + 1, limit)
    if used[key] and limit - used[key] < next_cost then
      next_at = outcome == OUTCOME_REFUSED and cost == 1 and retry or retry_at(key, next_cost)
    end
    return struct.pack('>ddddd', limit, remaining, retry, next_at, reset_times[key] or 0)
  end

  -- Units are refunded as long as their bucket counts.
  local function refund(key, units, taken)
    local entry_end = bucket_of(taken.at, width, span)
    if entry_end <= horizon or context.now >= reset_times[key] or not wrote(key) then
      return 0
    end
    local refunded = refund_entry(key, units, entry_end)
    return refunded, refunded > 0 and refunded == used[key]
  end

  local function reset_at(key)
    return (is_kept[key] and old_reset_times or reset_times)[key] or 0
  end

  local function write_buckets(key)
    if is_kept[key] then
      -- Only the metadata is written.
      rebased[key], newest[key], reset_times[key] = nil, old_newest[key], old_reset_times[key]
    end
    local reply = write_layout(key)
    if type(reply) == 'table' and reply.err then
      return reply
    end
    local retained_until = retain_until(newest[key], reset_times[key])
    if
      rebased[key] or old_newest[key] == 0 or context.key_metadata[key]
      or retained_until > retain_until(old_newest[key], old_reset_times[key])
    then
      -- A fresh key expires at once.
      local ttl = math.max(math.ceil((retained_until - context.now) / 1000), metadata_ttl(context, key), 1)
      ttl = string.format('%.0f', ttl)
      reply = redis.pcall('PEXPIRE', KEYS[key], ttl)
      if type(reply) == 'table' then
        return reply
      end
    end
  end

  return {
    after = after, reports_limits = true, refunds_immediately = true, dirty_keys = dirty_keys,
    write_modes = write_modes, suffixes = suffixes, read = read, repair = repair, kept = is_kept,
    outcome_of = outcome_of, charge = charge, refund = refund, reset_at = reset_at, encode_state = encode_state,
    mark_rewrite = mark_rewrite, write = write_buckets,
  }
end
