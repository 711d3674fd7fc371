-- Operations on permits: see src/policy/execute/permits.rs.

-- Sets the ticket of a refused call under the policy that refuses it, if it is the only one and for
-- concurrency; otherwise the call has no ticket.
local function queue(group, keys, cost)
  local waits_for, refusals = nil, 0
  for index = 1, #group.executors do
    local executor = executor_of(group, index, keys[index])
    local outcome = executor.outcome_of(keys[index], units_of(cost, index))
    if outcome ~= OUTCOME_ADMITTED or is_blocked(keys[index]) then
      refusals = refusals + 1
      waits_for = outcome == OUTCOME_REFUSED and not is_blocked(keys[index]) and index or nil
    end
  end
  for index = 1, #group.executors do
    local permits = executor_of(group, index, keys[index]).permit_functions
    if permits then
      permits.queue(keys[index], units_of(cost, index), refusals == 1 and waits_for == index)
    end
  end
end

-- Takes units with a permit. A call that waits and is refused may get a ticket. Returns whether the cost
-- was charged.
local function acquire(group, keys, cost, request, write_hold)
  context.permit_request = request
  local is_admitted = take(context, group, keys, cost, write_hold, request.waited >= 0)
  if not is_admitted and has_units(cost) and not group.is_stale then
    queue(group, keys, cost)
  end
  context.permit_request = nil
  return is_admitted
end

operations[OPERATION_ACQUIRE] = function(group, keys, at, key_offset)
  local cost, id, waited, after
  cost, after = read_units(context, group, at)
  id, waited, after = unpack_struct('>dd', context.request, after)
  local units = string.sub(context.request, at, after - 17)
  local hold_number, hold_id, duration
  hold_number, after = unpack_struct('>I2', context.request, after)
  local needs_hold, first, hold_key = hold_number > 0 and has_units(cost), context.outcome_count + 1, nil
  if hold_number > 0 then
    holds, hold_key = holds or new_holds(context), key_offset + hold_number
    hold_id, duration, after = unpack_struct('>c16d', context.request, after)
  end
  local is_admitted = acquire(group, keys, cost, { id = id, waited = waited }, needs_hold and function()
    return holds.add(hold_key, hold_id, units, end_of(context, duration))
  end)
  if is_admitted and needs_hold then
    holds.undo_on_failure(group, first, function()
      holds.remove(hold_key, hold_id, units)
    end)
  end
  return after, is_admitted and charged_units(cost) or 0
end

operations[OPERATION_RELEASE] = function(group, keys, at)
  local id, after = unpack_struct('>d', context.request, at)
  local was_held = 0
  for_each_permit(group, keys, function(permits, key)
    was_held = permits.release(key, id) and 1 or was_held
  end)
  report_status(group, keys)
  return after, was_held
end

operations[OPERATION_RENEW_PERMIT] = function(group, keys, at)
  local id, after = unpack_struct('>d', context.request, at)
  local was_held = true
  local found = for_each_permit(group, keys, function(permits, key)
    was_held = permits.renew(key, id) and was_held
  end)
  report_status(group, keys)
  return after, found and was_held and 1 or 0
end
