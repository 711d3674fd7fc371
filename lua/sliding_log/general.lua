-- The twin of src/algorithm/sliding_log/mod.rs: one limit or several over a log of calls.
--
-- A value is a sorted set of entries. The score is the entry's time. The member is, in whole
-- big-endian numbers:
--
-- 7 bytes  the cumulative units up to this entry; they make members unique and order equal scores
-- 4 bytes  the entry's own units
-- 1 byte   a length code: how long after the newest entry the log is needed
--
-- If the entry has a lag, kept units, no own units or key metadata, the member continues, and ends
-- with the metadata:
--
-- 7 bytes  the lag: how far the entry's time is ahead of the time at which it was written
-- 4 bytes  how many of the newest units are kept; 0 if refused calls do not count
--
-- A policy is 1 if refused calls count or else 0, the precision, the number of limits, and each
-- limit with its window. A state in the reply has for each limit: the limit, the remaining units,
-- the retry time, the time at which a cost of 1 fits, the reset time.

local function sliding_log(context, source, at)
  local LIMIT, MAX_DROPPED, DROP_EVERY, MAX_SPAN = 9007199254740992, 100, 16, 200
  local call, pack, unpack_struct, format = redis.pcall, struct.pack, struct.unpack, string.format
  local max, min = math.max, math.min
  local refused_flag, precision, limit_count, after = unpack_struct('>ddd', source, at)
  local counts_refused, limits, windows = refused_flag == 1, {}, {}
  for index = 1, limit_count do
    limits[index], windows[index], after = unpack_struct('>dd', source, after)
  end
  local min_limit, max_limit, max_window = min(unpack(limits)), max(unpack(limits)), max(unpack(windows))
  local dirty_keys, write_modes, mark_dirty, mark_rewrite = new_dirty_keys()

  -- The code of a length in one byte: the length is rounded up to 4 to 7 times a power of two.
  local function span_code(length)
    local fraction, exponent = math.frexp(max(length, 4))
    return (exponent - 3) * 4 + math.ceil(fraction * 8) - 4
  end

  local function span_of(code)
    return (4 + code % 4) * 2 ^ math.floor(code / 4)
  end

  local own_span = span_code(max_window)

  -- By key: the log, nil if the value cannot be read; the encoded metadata after the state.
  local logs, suffixes = {}, {}
  -- By key: a stored log that a clock step left too far ahead, until it is repaired.
  local kept_logs = {}

  local function to_decimal(number)
    return format('%.0f', number)
  end

  -- Decodes an entry; nil if it is invalid.
  local function decode_entry(member, score)
    local time, after, units, span, lag, keep = tonumber(score), 0, 0, 0, 0, 0
    if #member == 12 then
      after, units, span = unpack_struct('>I7I4B', member)
    elseif #member == 23 or (#member > 23 and split_metadata(string.sub(member, 24)) == '') then
      after, units, span, lag, keep = unpack_struct('>I7I4BI7I4', member)
    end
    local is_whole = time and time >= 0 and time < LIMIT and time % 1 == 0
    if
      is_whole and (units >= 1 or #member > 12) and units <= after and after < LIMIT and lag <= time
      and span <= MAX_SPAN
    then
      return time, after, units, span, lag, keep
    end
  end

  -- The entry at a rank.
  local function entry_at(name, rank)
    local found = call('ZRANGE', name, to_decimal(rank), to_decimal(rank), 'WITHSCORES')
    if found[1] then
      return decode_entry(found[1], found[2])
    end
  end

  -- The rank of the first entry, from `low` on, whose cumulative units reach `unit`; `high` if
  -- there is none. The search steps double, then halve.
  local function rank_of(name, unit, low, high)
    local step = 1
    local function is_before(rank)
      local _, after = entry_at(name, rank)
      return after and after < unit
    end
    local top = low
    while top < high and is_before(top) do
      low, top, step = top + 1, top + step, step * 2
    end
    top = min(top, high)
    while low < top do
      local middle = low + math.floor((top - low) / 2)
      if is_before(middle) then
        low = middle + 1
      else
        top = middle
      end
    end
    return low
  end

  -- The units before the first entry that counts in a window, and that entry's cumulative units and
  -- time. All units if no entry counts; nil if the entry cannot be read.
  local function first_counting(name, log, at, window)
    if not log.time or log.time + window <= at then
      return log.after
    end
    local found = call(
      'ZRANGEBYSCORE', name, '(' .. to_decimal(at - window), '+inf', 'WITHSCORES', 'LIMIT', '0', '1'
    )
    if found[1] then
      local time, after, units = decode_entry(found[1], found[2])
      if time and after <= log.after then
        return after - units, after, time
      end
    end
  end

  -- Replaces the log with one entry of `units` units.
  local function restart(log, units, time)
    log.replaced, log.time, log.stored_after, log.after, log.units, log.member = true, nil, 0, units, 0, nil
    log.new_time, log.added, log.drops_due = time, {}, 0
    if units > 0 then
      log.added[1] = units
    end
    for index = 1, #limits do
      log.before[index], log.first_totals[index] = 0, nil
    end
  end

  local function round_up(time)
    return time + (precision - time % precision) % precision
  end

  local function read(key)
    local name = KEYS[key]
    local found = call('ZRANGE', name, '-1', '-1', 'WITHSCORES')
    if found.err then
      return
    end
    -- By limit: the units before the first entry that counts, and that entry's cumulative units and
    -- time. `stored_after` is the cumulative units in Redis, `added` the units of the entries to
    -- write.
    local log = { before = {}, first_totals = {}, first_times = {}, added = {}, drops_due = 0 }
    log.after, log.units, log.stored_after, log.keep, log.at, log.span = 0, 0, 0, 0, context.now, 0
    if found[1] then
      local time, after, units, span, lag, keep = decode_entry(found[1], found[2])
      if not time then
        return
      end
      log.member, log.time, log.after, log.units, log.stored_after = found[1], time, after, units, after
      log.keep, log.at, log.lag, log.span = keep, max(context.now, time - lag), lag, span
      suffixes[key] = #found[1] > 23 and string.sub(found[1], 24)
      if units > 0 and time + span_of(span) <= context.now then
        -- The reset time has passed: Redis may or may not have dropped the log.
        restart(log, 0, round_up(context.now))
        log.keep, log.at, log.lag, log.span = 0, context.now, 0, 0
        logs[key] = log
        mark_dirty(key, 2)
        return
      end
      if time - lag > context.now + max_window then
        -- The clock has stepped back: the log is fully used now.
        local before = first_counting(name, log, time - lag, max_window)
        if not before then
          return
        end
        local used = after - before
        if keep > 0 then
          used = min(used, keep)
        end
        used = max(used, max_limit)
        kept_logs[key] = {
          added = {}, stored_after = after, drops_due = 0, after = after, units = units, keep = keep, at = log.at,
          span = span, member = found[1], time = time, lag = lag, new_time = time,
          reset_at = units > 0 and time + span_of(span) or 0,
        }
        restart(log, used, round_up(context.now))
        log.at, log.keep, log.span = context.now, counts_refused and used or 0, max(span, own_span)
        logs[key] = log
        return
      end
    end
    log.new_time = max(round_up(log.at), log.time or 0)
    for index = 1, #limits do
      log.before[index], log.first_totals[index], log.first_times[index] =
        first_counting(name, log, log.at, windows[index])
      if not log.before[index] then
        return
      end
    end
    logs[key] = log
  end

  local function repair(key)
    local kept = kept_logs[key]
    if kept then
      kept_logs[key] = nil
      mark_dirty(key, 2)
      return kept.reset_at
    end
  end

  -- Whether a call drops old entries, by the cumulative units before it and its own.
  local function drops_old(after, units)
    return precision > 1 or after % DROP_EVERY + units >= DROP_EVERY
  end

  -- Adds units to a log. All calls of a script have the same time.
  local function record(key, log, cost)
    local used = 0
    for index = 1, #limits do
      used = max(used, log.after - log.before[index])
    end
    if log.after + cost >= LIMIT then
      -- The cumulative units reach 2^53: the units that count move to a new log at the current
      -- time.
      restart(log, used, log.new_time)
    end
    if not counts_refused then
      log.keep = 0
    elseif used == 0 then
      log.keep = max_limit
    else
      log.keep = max(max_limit, log.keep > 0 and log.keep or used)
    end
    if drops_old(log.after, cost) then
      log.drops_due = log.drops_due + 1
    end
    log.span = max(log.span, own_span)
    log.after = log.after + cost
    log.added[#log.added + 1] = cost
    mark_dirty(key, 2)
  end

  local function outcome_of(key, cost)
    local log = logs[key]
    if not log then
      return OUTCOME_UNREADABLE
    end
    if cost > min_limit then
      return OUTCOME_IMPOSSIBLE
    end
    for index = 1, #limits do
      if cost > 0 and log.after - log.before[index] + cost > limits[index] then
        return OUTCOME_REFUSED
      end
    end
    return OUTCOME_ADMITTED
  end

  local function charge(key, cost)
    record(key, logs[key], cost)
  end

  -- The time of the newest entry that has units, if there is one.
  local function newest_time(log)
    return #log.added > 0 and log.new_time or log.units > 0 and log.time
  end

  -- The time from which the log is fresh.
  local function reset_of(log)
    return newest_time(log) and newest_time(log) + span_of(log.span) or 0
  end

  -- The first time at which a limit that refuses a cost would admit it. This is when the entry with
  -- the last unit in the way expires.
  -- `more` units are still to be recorded.
  local function retry_time_of(key, log, index, cost, more)
    local after, until_reset = log.after + more, more > 0 and math.huge or reset_of(log)
    local last, time = after - limits[index] + cost, log.new_time
    if last <= log.stored_after then
      local first_total = log.first_totals[index]
      if first_total and last <= first_total then
        time = log.first_times[index]
      else
        local name = KEYS[key]
        local first = call('ZCOUNT', name, '-inf', to_decimal(log.at - windows[index]))
        local size = call('ZCARD', name)
        if type(first) == 'number' and type(size) == 'number' then
          time = entry_at(name, rank_of(name, last, first, size)) or time
        end
      end
    end
    return min(time + windows[index], until_reset)
  end

  local function encode_state(key, cost, outcome, owed)
    local log, statuses, metadata = logs[key], {}, context.key_metadata[key]
    local is_blocked = metadata and metadata.blocked_until > context.now
    -- The call of a peek would be recorded, unless the key is blocked.
    local more = context.is_peek and counts_refused and not is_blocked and owed == 0 and cost or 0
    -- The owed units are paid before the costs.
    local is_unit, next_cost = cost == 1 and owed == 0, min(owed + 1, min_limit)
    cost = min(owed + cost, min_limit)
    for index, limit in ipairs(limits) do
      if log then
        local used, retry_at, next_at = log.after - log.before[index], 0, 0
        if outcome == OUTCOME_REFUSED and used + cost > limit then
          retry_at = retry_time_of(key, log, index, cost, more)
        end
        if used + next_cost > limit then
          local is_retry = outcome == OUTCOME_REFUSED and is_unit and more == 0
          next_at = is_retry and retry_at or retry_time_of(key, log, index, next_cost, 0)
        end
        local limit_reset_at = newest_time(log) and min(newest_time(log) + windows[index], reset_of(log)) or 0
        statuses[index] = pack('>ddddd', limit, max(0, limit - used), retry_at, next_at, limit_reset_at)
      else
        statuses[index] = pack('>ddddd', 0, 0, 0, 0, 0)
      end
    end
    return table.concat(statuses)
  end

  -- How many of the oldest entries to drop for the recorded calls, at most MAX_DROPPED for each
  -- call: expired entries, and entries that newer units have pushed out.
  local function droppable_count(name, log)
    local expired = call('ZCOUNT', name, '-inf', to_decimal(log.at - max_window))
    if type(expired) ~= 'number' then
      return 0
    end
    local count = min(expired, MAX_DROPPED * log.drops_due)
    if log.keep > 0 and log.after - log.before[1] > log.keep then
      local after = log.stored_after
      count = 0
      for _, units in ipairs(log.added) do
        local due = drops_old(after, units)
        after = after + units
        if due then
          local high = count + MAX_DROPPED
          count = min(high, max(expired, rank_of(name, after - log.keep + 1, count, high)))
        end
      end
    end
    return count
  end

  local function encode_member(after, units, span, lag, keep, text)
    if lag > 0 or keep > 0 or units == 0 or text ~= '' then
      return pack('>I7I4BI7I4', after, units, span, lag, keep) .. text
    end
    return pack('>I7I4B', after, units, span)
  end

  -- The scores and members of the new entries: one entry for each call, or one for all. The
  -- metadata is stored in the newest entry; a log without entries gets one without units for it.
  local function new_entries(key, log)
    local added, after, text = log.added, log.stored_after, encode_metadata(context, key)
    if #added == 0 then
      log.outdated = log.member
      return { to_decimal(log.time or 0), encode_member(after, log.units, log.span, log.lag or 0, log.keep, text) }
    end
    local score, lag, arguments = to_decimal(log.new_time), log.new_time - log.at, {}
    if precision > 1 then
      local units = log.after - log.stored_after
      if log.time == log.new_time then
        -- It replaces the newest entry.
        units, log.outdated = units + log.units, log.member
      end
      added, after = { units }, log.after - units
    end
    for index, units in ipairs(added) do
      after = after + units
      arguments[index * 2 - 1] = score
      arguments[index * 2] = encode_member(after, units, log.span, lag, log.keep, index == #added and text or '')
    end
    return arguments
  end

  -- Extends the TTL if the log must live longer. A TTL is longer than necessary, so that most calls
  -- leave it unchanged.
  local function extend_ttl(key, log)
    local name = KEYS[key]
    local left = call('PTTL', name)
    -- One more millisecond, because Redis's clock for expiry may be behind the script's.
    local span = span_of(log.span)
    local needed = max(math.ceil((log.new_time + span - context.now) / 1000) + 1, metadata_ttl(context, key))
    if type(left) == 'number' and left < needed then
      local ttl = to_decimal(needed + max(1000, math.floor(span / 8000)))
      return call('PEXPIRE', name, ttl)
    end
    return left
  end

  --@include sliding_log/refund.lua

  local function accepts_override(numbers)
    return #numbers == after - at and unpack_struct('>d', numbers, 17) == limit_count
  end

  local function reset_at(key)
    local log = kept_logs[key] or logs[key]
    return log and reset_of(log) or 0
  end

  local function write_log(key)
    local log, name = kept_logs[key] or logs[key], KEYS[key]
    if log.replaced then
      local reply = call('UNLINK', name)
      if type(reply) ~= 'number' or (#log.added == 0 and encode_metadata(context, key) == '') then
        return type(reply) ~= 'number' and reply or nil
      end
    end
    local arguments = new_entries(key, log)
    local reply = call('ZADD', name, unpack(arguments))
    if type(reply) ~= 'number' then
      return reply
    end
    local ttl_reply = extend_ttl(key, log)
    if type(ttl_reply) ~= 'number' then
      -- A key must not be without a TTL, and a call that fails must not be charged.
      for index = 2, #arguments, 2 do
        call('ZREM', name, arguments[index])
      end
      return ttl_reply
    end
    if log.outdated and log.outdated ~= arguments[2] then
      call('ZREM', name, log.outdated)
    end
    if log.drops_due > 0 then
      local count = droppable_count(name, log)
      if count > 0 then
        call('ZREMRANGEBYRANK', name, '0', to_decimal(count - 1))
      end
    end
  end

  return {
    after = after, reports_limits = true, refunds_immediately = true, dirty_keys = dirty_keys,
    write_modes = write_modes, suffixes = suffixes, read = read, repair = repair, kept = kept_logs,
    outcome_of = outcome_of, charge = charge, record_refused = counts_refused and charge or nil, refund = refund,
    reset_at = reset_at, encode_state = encode_state, accepts_override = accepts_override,
    mark_rewrite = mark_rewrite, write = write_log,
  }
end
