-- Refunds of a log, which remove units from its entries.

-- Removes the oldest units after the cumulative number `before`. Returns whether it could.
local function remove_oldest(name, _, size, before, refunded)
  local first = rank_of(name, before + 1, 0, size)
  local last = rank_of(name, before + refunded + 1, first, size)
  local found = call('ZRANGE', name, to_decimal(last), to_decimal(last), 'WITHSCORES')
  local _, after, entry_units, span, lag, keep = decode_entry(found[1], found[2])
  local left = min(entry_units, after - before - refunded)
  if left < entry_units then
    local changed = encode_member(after, left, span, lag, keep, string.sub(found[1], 24))
    if type(call('ZADD', name, found[2], changed)) ~= 'number' then
      return false
    end
    call('ZREM', name, found[1])
  end
  -- Expired entries before them are dropped too, because another version may count them.
  if last > 0 then
    call('ZREMRANGEBYRANK', name, '0', to_decimal(last - 1))
  end
  return true
end

-- Removes units of the entries from rank `start` to before `finish`, which end at the cumulative
-- number `own_until`, and lowers the numbers of the entries that follow. Returns whether it could.
local function remove_own(name, start, finish, own_until, refunded)
  local from = max(start - 1, 0)
  local found = call('ZRANGE', name, to_decimal(from), '-1', 'WITHSCORES')
  local newest_time, _, _, span, lag, keep = decode_entry(found[#found - 1], found[#found])
  local text = string.sub(found[#found - 1], 24)
  local removed, entries, last = {}, {}, nil
  for index = 1, #found, 2 do
    local rank = from + (index - 1) / 2
    local time, after, units, _, entry_lag, entry_keep = decode_entry(found[index], found[index + 1])
    last = last or after - units
    if rank >= finish then
      after = after - refunded
    elseif rank >= start then
      after = min(after, own_until - refunded)
    end
    if after > last or rank >= finish or rank < start then
      entries[#entries + 1] =
        { score = found[index + 1], time = time, after = after, units = after - last, lag = entry_lag, keep = entry_keep }
    end
    last, removed[#removed + 1] = after, found[index]
  end
  local arguments, is_kept = {}, {}
  for index, entry in ipairs(entries) do
    if index == #entries then
      -- The log was written at this time less the lag, or earlier.
      entry.lag, entry.keep, entry.text = max(entry.time - (newest_time - lag), 0), keep, text
    end
    arguments[index * 2 - 1] = entry.score
    arguments[index * 2] = encode_member(entry.after, entry.units, span, entry.lag, entry.keep, entry.text or '')
    is_kept[arguments[index * 2]] = true
  end
  -- The new entries come first: a key that loses all its entries loses its TTL.
  if type(call('ZADD', name, unpack(arguments))) ~= 'number' then
    return false
  end
  for _, member in ipairs(removed) do
    if not is_kept[member] then
      call('ZREM', name, member)
    end
  end
  return true
end

-- Removes units of the call's own entry, or the oldest ones: see the twin.
local function refund(key, units, taken)
  local log, name = logs[key], KEYS[key]
  local first = first_counting(name, log, log.at, max_window)
  if not first or taken.at + max_window <= context.now then
    return 0
  end
  first = log.keep > 0 and max(first, log.after - log.keep) or first
  local size, time = call('ZCARD', name), to_decimal(round_up(taken.at))
  local start, finish = call('ZCOUNT', name, '-inf', '(' .. time), call('ZCOUNT', name, '-inf', time)
  local _, own_until = entry_at(name, max(finish - 1, 0))
  if finish == 0 or not own_until then
    return 0
  end
  local is_near, own_from = log.keep == 0 and size - start <= MAX_DROPPED, first
  if is_near then
    local _, after, own_units = entry_at(name, min(start, size - 1))
    own_from = start < size and after and max(after - own_units, first) or own_until
  end
  local refunded = min(units, max(own_until - own_from, 0))
  if refunded == 0 or refunded == log.after - first then
    return refunded, refunded > 0
  end
  local remove = is_near and remove_own or remove_oldest
  return remove(name, start, finish, is_near and own_until or first, refunded) and refunded or 0
end
