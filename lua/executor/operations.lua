-- Operations on keys other than a take.
--
-- `new_operations` returns the operations by their number in the request. An operation receives the
-- group, the keys by policy (0 for a policy without a key), the position of its arguments in the
-- request, and the number of keys before the first key for holds. It returns the position after its
-- arguments, its units, and further doubles as text.

local function new_operations(context)
  local holds
  local unpack_struct = struct.unpack

  --@include executor/units.lua

  local function is_blocked(key)
    local metadata = context.key_metadata[key]
    return metadata and metadata.blocked_until > context.now
  end

  local function owes(key)
    local metadata = context.key_metadata[key]
    return metadata and metadata.owed > 0
  end

  -- Calls a function with the executor of each key that can be read.
  local function for_each_executor(group, keys, call)
    for index = 1, #group.executors do
      local key = keys[index]
      if key > 0 and not group.is_stale then
        local executor = executor_of(group, index, key)
        if executor.outcome_of(key, 0) == OUTCOME_ADMITTED then
          call(executor, key, index)
        end
      end
    end
  end

  -- Calls a function with the functions for permits of each key that has them. Returns whether one has.
  local function for_each_permit(group, keys, call)
    local found = false
    for_each_executor(group, keys, function(executor, key)
      if executor.permit_functions then
        found = true
        call(executor.permit_functions, key)
      end
    end)
    return found
  end

  -- The number of the permit of a hold. The twin of `permit_of` in src/policy/operation.rs.
  local function permit_of(hold)
    local high, low = unpack_struct('>I4I4', hold, 9)
    return high * 4294967296 + low
  end

  -- Records the status of the keys as outcomes.
  local function record_status(group, keys)
    for index = 1, #group.executors do
      local key = keys[index]
      if key > 0 then
        local executor = executor_of(group, index, key)
        record_outcome(context, group, executor, key, 0,
          group.is_stale and OUTCOME_STALE or executor.outcome_of(key, 0))
      end
    end
  end

  -- The same, after units that came back have paid more of the owed units.
  local function report_status(group, keys)
    pay(context, group, keys)
    record_status(group, keys)
  end

  local operations = {}

  -- A plain take is no operation of this table.
  operations[OPERATION_TAKE] = function(group, keys, at)
    local cost, after = read_units(context, group, at)
    take(context, group, keys, cost)
    return after
  end

  operations[OPERATION_TAKE_UP_TO] = function(group, keys, at)
    local units, after = unpack_struct('>d', context.request, at)
    local granted = largest_cost(units, function(cost)
      for index, executor in ipairs(group.executors) do
        executor = executor_of(group, index, keys[index])
        if group.is_stale or is_blocked(keys[index]) or executor.outcome_of(keys[index], cost) ~= OUTCOME_ADMITTED then
          return false
        end
      end
      return true
    end)
    -- If nothing is granted, the call is not counted as refused.
    take(context, group, keys, math.max(granted, math.min(units, 1)), nil, granted == 0)
    return after, granted
  end

  -- Adds owed units to a key, at most as many as may be owed by the three doubles in the request.
  -- Returns how many were added.
  local function owe(executor, key, units, at)
    local max, capacity, period = unpack_struct('>ddd', context.request, at)
    local metadata = context.key_metadata[key] or empty_metadata()
    local added = math.min(units, math.max(max - metadata.owed, 0))
    if added > 0 then
      metadata.owed, metadata.owed_at = metadata.owed + added, context.now
      metadata.owed_capacity, metadata.owed_period = capacity, period
      context.key_metadata[key] = metadata
      executor.mark_rewrite(key)
    end
    return added
  end

  -- Charges each policy as many units as remain, at most `units`. The rest become owed. How many may be
  -- owed is in the request, three doubles for each policy. Returns the charged units and those of them
  -- that are owed, by policy.
  local function charge_or_owe(group, keys, units, at)
    local charges, owed = {}, {}
    for_each_executor(group, keys, function(executor, key, index)
      local own_units = units_of(units, index)
      local fitting = charge_fitting(executor, key, own_units)
      owed[index] = owe(executor, key, own_units - fitting, at + 24 * (index - 1))
      charges[index] = fitting + owed[index]
    end)
    return charges, owed
  end

  operations[OPERATION_PENALIZE] = function(group, keys, at)
    local units, after = read_units(context, group, at)
    local charges = charge_or_owe(group, keys, units, after)
    report_status(group, keys)
    return after + 24 * #group.executors, moved_units(group, charges)
  end

  operations[OPERATION_SCHEDULE] = function(group, keys, at)
    local cost, max_wait, after
    cost, after = read_units(context, group, at)
    max_wait, after = unpack_struct('>d', context.request, after)
    local outcomes, slot, is_possible = {}, context.now, not group.is_stale and has_units(cost)
    for index, key in ipairs(keys) do
      if key > 0 then
        local executor, own_cost = executor_of(group, index, key), units_of(cost, index)
        outcomes[index] = group.is_stale and OUTCOME_STALE or executor.outcome_of(key, own_cost)
        if own_cost > 0 and not executor.booking_functions and not group.is_stale and outcomes[index] ~= OUTCOME_UNREADABLE then
          outcomes[index] = OUTCOME_IMPOSSIBLE
        end
        -- Owed units are paid first: a slot would be charged before them.
        is_possible = is_possible and outcomes[index] <= OUTCOME_REFUSED and not is_blocked(key)
          and (own_cost == 0 or not owes(key))
        if is_possible and outcomes[index] == OUTCOME_REFUSED then
          slot = math.max(slot, executor.booking_functions().slot(key, own_cost))
        end
      end
    end
    is_possible = is_possible and slot - context.now <= max_wait
    local states_before = {}
    for index, key in ipairs(keys) do
      if key > 0 then
        local executor, own_cost = executor_of(group, index, key), units_of(cost, index)
        if is_possible and own_cost > 0 then
          local bookings = executor.booking_functions()
          states_before[#states_before + 1] = bookings.encode_full_state(key)
          bookings.book(key, own_cost, slot)
          extend_mark(context, executor, key)
        end
        record_outcome(context, group, executor, key, own_cost, is_possible and OUTCOME_ADMITTED or outcomes[index])
      end
    end
    return after, is_possible and slot - context.now + 1 or 0, table.concat(states_before)
  end

  operations[OPERATION_CANCEL_SCHEDULED] = function(group, keys, at)
    local STATE_SIZE, count, requested, latest_count, states_before = 56, 0, 0, 0, {}
    for index, key in ipairs(keys) do
      count, at = unpack_struct('>I1', context.request, at)
      requested = requested + count
      local executor = executor_of(group, index, math.max(key, 1))
      if key > 0 then
        -- A cost of 1 normalizes the key as a take does.
        local is_normalized = not group.is_stale and executor.outcome_of(key, 1) ~= OUTCOME_UNREADABLE
        local state_after = string.sub(context.request, at + STATE_SIZE, at + 2 * STATE_SIZE - 1)
        if
          is_normalized and count > 0 and executor.booking_functions
          and executor.booking_functions().encode_full_state(key) == state_after
        then
          latest_count, states_before[index] = latest_count + 1, string.sub(context.request, at, at + STATE_SIZE - 1)
        end
      end
      at = at + count * 2 * STATE_SIZE
    end
    local is_last = latest_count > 0 and latest_count == requested
    for index, state in pairs(is_last and states_before or {}) do
      executor_of(group, index, keys[index]).booking_functions().restore(keys[index], state)
    end
    report_status(group, keys)
    return at, is_last and 1 or 0
  end

  operations[OPERATION_REFUND] = function(group, keys, at)
    local units, cost, kept, after, refunds = nil, nil, nil, nil, {}
    units, after = read_units(context, group, at)
    cost, after = read_units(context, group, after)
    kept, after = read_units(context, group, after)
    refund_charge(context, group, keys, units, cost, kept, after, refunds)
    report_status(group, keys)
    return after + 32 * #group.executors, moved_units(group, refunds)
  end

  -- Reads the hold of an operation, whose units have `size` bytes, or any number without `size`. Returns
  -- its key and identifier, its expiry and units as text if it expired at most `lateness` ago, an error, and
  -- the position after the identifier.
  local function read_hold(group, at, key_offset, size, lateness)
    holds = holds or new_holds(context)
    local hold_number, id, after = unpack_struct('>I2c16', context.request, at)
    local hold_key, expires_at, units, failure = key_offset + hold_number, nil, nil, nil
    if hold_number > 0 and not group.is_stale then
      expires_at, units, failure = holds.find(hold_key, id, size, lateness)
    end
    return hold_key, id, expires_at, units, failure, after
  end

  -- Fails the outcomes from a number on.
  local function fail_from(first, failure)
    if failure ~= nil then
      for outcome = first, context.outcome_count do
        fail(context, outcome, failure)
      end
    end
  end

  -- Fails a call whose key has the most holds and calls that it may have.
  local function refuse_hold(group, keys)
    local first = context.outcome_count + 1
    report_status(group, keys)
    for outcome = first, context.outcome_count do
      context.outcome_codes[outcome], context.details[outcome] = OUTCOME_TOO_MANY_HOLDS, nil
    end
  end

  --@include executor/permit_operations.lua

  --@include executor/repeats.lua

  operations[OPERATION_RESERVE] = function(group, keys, at, key_offset)
    holds = holds or new_holds(context)
    local hold_number, id, cost, duration, at_cost, after
    hold_number, id, at_cost = unpack_struct('>I2c16', context.request, at)
    cost, after = read_units(context, group, at_cost)
    local units = string.sub(context.request, at_cost, after - 1)
    duration, after = unpack_struct('>d', context.request, after)
    local hold_key, first = key_offset + hold_number, context.outcome_count + 1
    if hold_number > 0 and not group.is_stale and holds.is_full(hold_key) then
      refuse_hold(group, keys)
      return after, 0
    end
    -- A cost of 0 charges nothing, and so needs no hold.
    local needs_hold = has_units(cost)
    local admitted = take(context, group, keys, cost, hold_number > 0 and needs_hold and function()
      return holds.add(hold_key, id, units, end_of(context, duration))
    end)
    if admitted and needs_hold then
      holds.undo_on_failure(group, first, function()
        holds.remove(hold_key, id, units)
      end)
    end
    return after, admitted and charged_units(cost) or 0
  end

  operations[OPERATION_EXTEND] = function(group, keys, at, key_offset)
    local size = size_of_units(group)
    local hold_key, id, expires_at, held, failure, at_cost = read_hold(group, at, key_offset, size)
    local cost, after = read_units(context, group, at_cost)
    local duration, after_all = unpack_struct('>d', context.request, after)
    local first = context.outcome_count + 1
    if not expires_at then
      report_status(group, keys)
      fail_from(first, failure)
      return after_all, 0, string.rep('\0', size)
    end
    local total = combine_units(held, string.sub(context.request, at_cost, after - 1), function(own, more)
      return math.min(own + more, 9007199254740991)
    end)
    local taken = without_permits(group, cost)
    local is_longer = has_units(taken)
    local admitted = take(context, group, keys, taken, is_longer and function()
      return holds.change(hold_key, id, held, total, math.max(expires_at, end_of(context, duration)))
    end)
    if admitted and is_longer then
      holds.undo_on_failure(group, first, function()
        holds.change(hold_key, id, total, held, expires_at)
      end)
    end
    local is_charged = admitted and is_longer
    return after_all, is_charged and charged_units(cost) or 0, is_charged and total or held
  end

  -- Moves the units of a settled hold by policy: refunds a surplus unless it is late, and charges a
  -- deficit. Returns the moved units and the owed ones by policy.
  local function settle_by_policy(group, keys, held, actual, limits_at, at, count, charge_length, is_late)
    local deficits, surplus = {}, {}
    for index, own in ipairs(actual) do
      local own_held = unpack_struct('>d', held, 8 * index - 7)
      deficits[index], surplus[index] = math.max(own - own_held, 0), is_late and 0 or math.max(own_held - own, 0)
    end
    local moved, owed = charge_or_owe(group, keys, without_permits(group, deficits), limits_at)
    for index, refunded in pairs(refund_newest(context, group, keys, surplus, at, count, charge_length)) do
      moved[index] = refunded
    end
    return moved, owed
  end

  operations[OPERATION_SETTLE] = function(group, keys, at, key_offset)
    local size = size_of_units(group)
    local hold_key, id, expires_at, held, failure, after = read_hold(group, at, key_offset, size, HOLD_LATE)
    local actual, count
    actual, after = read_units(context, group, after)
    local limits_at = after
    count, after = unpack_struct('>I1', context.request, after + 24 * #group.executors)
    local first, moved, owed, is_settled = context.outcome_count + 1, {}, {}, expires_at ~= nil
    for index = 1, #group.executors do
      local key = keys[index]
      is_settled = is_settled
        and (key == 0 or executor_of(group, index, key).outcome_of(key, 0) == OUTCOME_ADMITTED)
    end
    if is_settled then
      failure = holds.remove(hold_key, id, held)
      is_settled = failure == nil
    end
    local charge_length = size + 32 * #group.executors
    local is_late = is_settled and expires_at <= context.now
    if is_settled and context.is_metered then
      moved, owed = settle_by_policy(group, keys, held, actual, limits_at, after, count, charge_length, is_late)
    elseif is_settled then
      local units = unpack_struct('>d', held)
      if actual > units then
        moved, owed = charge_or_owe(group, keys, without_permits(group, actual - units), limits_at)
      elseif not is_late then
        moved = refund_newest(context, group, keys, units - actual, after, count, charge_length)
      end
    end
    for_each_permit(group, keys, function(permits, key)
      permits.release(key, permit_of(id))
    end)
    report_status(group, keys)
    if is_settled then
      holds.undo_on_failure(group, first, function()
        holds.add(hold_key, id, held, expires_at)
      end)
    else
      fail_from(first, failure)
    end
    local most, by_policy = moved_units(group, moved)
    local most_owed, owed_by_policy = moved_units(group, owed)
    return after + count * charge_length, most, by_policy .. (is_settled and held or string.rep('\0', size))
      .. (context.is_metered and owed_by_policy or struct.pack('>d', most_owed)) .. struct.pack('>d', is_late and 1 or 0)
  end

  operations[OPERATION_RENEW] = function(group, keys, at, key_offset)
    local hold_key, id, expires_at, held, failure, after = read_hold(group, at, key_offset)
    local duration, after_all = unpack_struct('>d', context.request, after)
    local first = context.outcome_count + 1
    if expires_at then
      failure = holds.change(hold_key, id, held, held, math.max(expires_at, end_of(context, duration)))
    end
    local is_renewed, was_held = expires_at ~= nil and failure == nil, true
    local has_permits = for_each_permit(group, keys, function(permits, key)
      was_held = permits.renew(key, permit_of(id)) and was_held
    end)
    report_status(group, keys)
    fail_from(first, failure)
    if not was_held then
      return after_all, is_renewed and 3 or 0
    end
    return after_all, is_renewed and 1 or has_permits and 2 or 0
  end

  operations[OPERATION_RESET] = function(group, keys, at, key_offset)
    local hold_number, after = unpack_struct('>I2', context.request, at)
    if hold_number > 0 and not group.is_stale then
      redis.pcall('UNLINK', KEYS[key_offset + hold_number])
    end
    for index = 1, #group.executors do
      local key = keys[index]
      if key > 0 and not group.is_stale then
        local executor = executor_of(group, index, key)
        if executor.reset_at then
          -- The units of earlier decisions must not come back while they would have counted.
          local marked_until = context.key_metadata[key] and context.key_metadata[key].marked_until or 0
          local until_time = math.max(executor.reset_at(key), marked_until)
          if until_time > context.now then
            invalidate(context, key, until_time)
          end
        end
        local metadata = context.key_metadata[key]
        if metadata then
          metadata.blocked_until = 0
          metadata.strikes, metadata.window_end, metadata.step = 0, 0, 0
          metadata.banned_until, metadata.forget_at, metadata.excused_from = 0, 0, 0
          forget_owed(metadata)
        end
        reset_key(context, group, index, key, metadata)
      end
    end
    record_status(group, keys)
    return after, 0
  end

  operations[OPERATION_BLOCK] = function(group, keys, at)
    local duration, after = unpack_struct('>d', context.request, at)
    for_each_executor(group, keys, function(executor, key)
      local metadata = context.key_metadata[key] or empty_metadata()
      context.key_metadata[key] = metadata
      metadata.blocked_until = math.max(metadata.blocked_until, end_of(context, duration))
      executor.mark_rewrite(key)
    end)
    record_status(group, keys)
    return after, 0
  end

  operations[OPERATION_UNBLOCK] = function(group, keys, at)
    for_each_executor(group, keys, function(executor, key)
      if context.key_metadata[key] then
        context.key_metadata[key].blocked_until = 0
        executor.mark_rewrite(key)
      end
    end)
    record_status(group, keys)
    return at, 0
  end

  operations[OPERATION_OVERRIDE] = function(group, keys, at)
    local duration, after = unpack_struct('>d', context.request, at)
    for index = 1, #group.executors do
      local count
      count, after = unpack_struct('>I1', context.request, after)
      local numbers = string.sub(context.request, after, after + count * 8 - 1)
      after = after + count * 8
      local key = keys[index]
      local executor = executor_of(group, index, math.max(key, 1))
      if key > 0 and count > 0 and not group.is_stale and executor.outcome_of(key, 0) == OUTCOME_ADMITTED then
        local metadata = context.key_metadata[key] or empty_metadata()
        metadata.override_until, metadata.override_numbers = end_of(context, duration), numbers
        context.key_metadata[key] = metadata
        executor.mark_rewrite(key)
        flush_and_reload(context, group, index, key, true)
        executor = executor_of(group, index, key)
        if executor.override_numbers then
          repair_key(context, executor, key)
        end
      end
    end
    record_status(group, keys)
    return after, 0
  end

  operations[OPERATION_CLEAR_OVERRIDE] = function(group, keys, at)
    for_each_executor(group, keys, function(executor, key, index)
      if context.key_metadata[key] then
        context.key_metadata[key].override_until = 0
        executor.mark_rewrite(key)
        flush_and_reload(context, group, index, key, true)
      end
    end)
    record_status(group, keys)
    return at, 0
  end

  return operations
end
