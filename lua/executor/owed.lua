-- Owed units and their payment. The twin of src/policy/owed.rs and src/policy/execute/owed.rs.

-- The largest cost up to `max_units` that `is_admitted` accepts. It must accept every cost below
-- one that it accepts.
local function largest_cost(max_units, is_admitted)
  if max_units == 0 or is_admitted(max_units) then
    return max_units
  end
  local low, high = 0, max_units
  while high - low > 1 do
    local middle = low + math.floor((high - low) / 2)
    if is_admitted(middle) then
      low = middle
    else
      high = middle
    end
  end
  return low
end

-- Charges as many units as remain, at most `units`. Returns their number.
local function charge_fitting(executor, key, units)
  local cost = largest_cost(units, function(cost)
    return executor.outcome_of(key, cost) == OUTCOME_ADMITTED
  end)
  if cost > 0 then
    executor.outcome_of(key, cost)
    executor.charge(key, cost)
  end
  return cost
end

-- Pays the owed units of a key. If any are left, nothing remains.
local function pay_key(context, executor, key, metadata)
  local now, at = context.now, math.min(metadata.owed_at, context.now)
  local periods = math.max(math.floor((now - at) / metadata.owed_period) - 1, 0)
  metadata.owed = metadata.owed - math.min(metadata.owed, periods * metadata.owed_capacity)
  local paid = charge_fitting(executor, key, metadata.owed)
  metadata.owed = metadata.owed - paid
  -- A refused call that counts begins the period anew.
  if periods > 0 or paid > 0 or executor.record_refused then
    at = now
  end
  if at ~= metadata.owed_at then
    metadata.owed_at = at
    executor.mark_rewrite(key)
  end
  if metadata.owed == 0 then
    forget_owed(metadata)
  end
end

-- Pays the owed units of keys by policy.
local function pay(context, group, keys)
  for index = 1, #group.executors do
    local key = keys[index]
    local metadata = context.key_metadata[key]
    if metadata and metadata.owed > 0 and not group.is_stale then
      local executor = group.executor_of[key] or group.executors[index]
      if executor.outcome_of(key, 0) == OUTCOME_ADMITTED then
        pay_key(context, executor, key, metadata)
      end
    end
  end
end
