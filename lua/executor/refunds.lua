-- Changes of keys outside of takes: keys that are written and read again, resets, and refunds.

local function executor_of(group, index, key)
  return group.executor_of[key] or group.executors[index]
end

-- Writes a key now and reloads it into a new executor. If the write fails, nothing changes here:
-- the key stays dirty, and its outcomes fail when the group is written. `is_kept` is as for `load_key`.
local function flush_and_reload(context, group, index, key, is_kept)
  local executor = executor_of(group, index, key)
  if executor.write_modes[key] then
    extend_mark(context, executor, key)
    if executor.write(key) ~= nil then
      return
    end
    executor.write_modes[key] = nil
    for outcome, other in pairs(group.key_of_outcome) do
      if other == key then
        group.key_of_outcome[outcome] = nil
      end
    end
  end
  local policy = group.executors[index]
  local fresh = policy.algorithm(context, context.request, policy.at)
  fresh.algorithm, fresh.at = policy.algorithm, policy.at
  group.all_executors[#group.all_executors + 1] = fresh
  group.executor_of[key] = fresh
  local value = fresh.is_string and redis.pcall('GET', KEYS[key])
  load_key(context, group, fresh, key, type(value) == 'string' and value, is_kept)
end

-- Makes a key fresh. Its metadata stays.
local function reset_key(context, group, index, key, metadata)
  local reply = redis.pcall('UNLINK', KEYS[key])
  if type(reply) ~= 'number' then
    fail_key(context, group, key, reply)
    return
  end
  executor_of(group, index, key).write_modes[key] = nil
  flush_and_reload(context, group, index, key)
  if metadata and end_of_metadata(metadata) > context.now then
    context.key_metadata[key] = metadata
    group.executor_of[key].mark_rewrite(key)
    flush_and_reload(context, group, index, key)
  end
end

-- Refunds units of a key under one policy, where its mark says that they are. The twin of
-- `Policy::refund` in Rust. Returns their number, and whether the key is fresh.
local function refund_key(context, executor, key, units, taken)
  local metadata = context.key_metadata[key] or empty_metadata()
  taken.moved, taken.early = metadata.moved - taken.mark, metadata.early
  if taken.moved < 0 or taken.mark < metadata.valid_from then
    return 0
  end
  local until_time = executor.reset_at and executor.reset_at(key) or 0
  local refunded, is_unused, shift, early = executor.refund(key, units, taken)
  shift, early = shift or 0, early or metadata.early
  if shift > 0 or early ~= metadata.early then
    metadata.moved, metadata.early = math.min(metadata.moved + shift, 9007199254740991), early
    last_until(metadata, until_time)
    context.key_metadata[key] = metadata
    executor.mark_rewrite(key)
  end
  return refunded, is_unused
end

-- Refunds `units` units of a charge of `cost` units, of which `kept` stay charged; each may be by
-- policy. Its records, by policy, are in the request. Adds the refund under each policy to `refunds`.
local function refund_charge(context, group, keys, units, cost, kept, at, refunds)
  for index = 1, #group.executors do
    local taken_at, reset_at, mark, used
    taken_at, reset_at, mark, used, at = struct.unpack('>dddd', context.request, at)
    local key, own_units = keys[index], units_of(units, index)
    if key > 0 and own_units > 0 and not group.is_stale then
      local executor = executor_of(group, index, key)
      -- A cost of 1 normalizes the key as a take does. After its reset time a call has nothing
      -- left to refund, even if a longer window would count its units again.
      if executor.outcome_of(key, 1) ~= OUTCOME_UNREADABLE and reset_at > context.now
        and (executor.ends_on_milliseconds or reset_at - 1000 >= context.now)
      then
        if executor.refunds_immediately then
          flush_and_reload(context, group, index, key)
          executor = executor_of(group, index, key)
        end
        local refunded, is_unused = refund_key(context, executor, key, own_units, {
          at = taken_at, reset_at = reset_at, mark = mark, used = used, cost = units_of(cost, index),
          kept = units_of(kept, index),
        })
        refunds[index] = (refunds[index] or 0) + refunded
        if is_unused then
          reset_key(context, group, index, key, context.key_metadata[key])
        elseif executor.refunds_immediately then
          flush_and_reload(context, group, index, key)
        end
      end
    end
  end
end

-- Refunds units of `count` charges in the request, of the latest ones first. Returns the refunds by
-- policy. `surplus` is a number, or a table by policy that this function changes.
local function refund_newest(context, group, keys, surplus, at, count, charge_length)
  local refunds = {}
  for number = count - 1, 0, -1 do
    local records = at + number * charge_length
    if type(surplus) == 'table' then
      local charged, units, kept, is_refunded = nil, {}, {}, false
      charged, records = read_units(context, group, records)
      for index, own in ipairs(charged) do
        units[index] = math.min(surplus[index], own)
        surplus[index], kept[index] = surplus[index] - units[index], own - units[index]
        is_refunded = is_refunded or units[index] > 0
      end
      if is_refunded then
        refund_charge(context, group, keys, units, charged, kept, records, refunds)
      end
    else
      local charged
      charged, records = struct.unpack('>d', context.request, records)
      local units = math.min(surplus, charged)
      surplus = surplus - units
      if units > 0 then
        refund_charge(context, group, keys, units, charged, charged - units, records, refunds)
      end
    end
  end
  return refunds
end
