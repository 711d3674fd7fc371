-- Calls that may be repeated: takes, reservations and calls for permits with an identifier. A call that
-- was charged is remembered in the set of holds of its key, and one with the same identifier gets the same
-- reply. The twin of `repeats.rs`. A refused call has charged nothing, and is not remembered.
--
-- A remembered call has two members, whose score is its expiry in microseconds less one half: so no hold
-- is between them. The first is its name: the operation and the length of the identifier (one byte
-- each), and the identifier. The second is the name and the record:
--
-- layout     for each policy: its algorithm (one byte), and the bytes of its numbers in requests (two)
-- one byte   the bytes of the units
-- a double   the time of the decision
-- units      a double, or one for each policy
-- hold       of a reservation or a call for a permit: its end (a double), and its identifier, which
--            contains the number of the permit
-- outcomes   for each policy: the code (one byte), the state and the details, each after its length (two
--            bytes)
--
-- Both have a zero byte at their end where their length would be that of a hold's member.

local function padded(member)
  return #member % 8 == 0 and member .. '\0' or member
end

-- The layout of the records that the client can decode with its policies.
local function layout_of(group)
  local parts = {}
  for index, executor in ipairs(group.executors) do
    for number, algorithm in pairs(algorithms) do
      if algorithm == executor.algorithm then
        parts[index] = struct.pack('>I1I2', number, executor.after - executor.at)
      end
    end
  end
  return table.concat(parts)
end

-- Returns the record of a call if it is remembered and has the layout, the second member if there is
-- one, and `false` if the set cannot be read.
local function find_call(key, name, layout)
  local expires_at, text, failure = holds.read(key, name)
  if not expires_at then
    return nil, nil, failure
  end
  local is_open, is_like = expires_at > context.now, string.sub(text, 1, #layout) == layout
  return is_open and is_like and string.sub(text, #layout + 1) or nil, name .. text
end

-- Repeats the reply to a call. Returns the time of the first call, and its units and hold.
local function repeat_reply(group, keys, hold_key, record, units_size, has_hold)
  local first_at, at = unpack_struct('>d', record)
  local details = string.sub(record, at, at + units_size - 1)
  at = at + units_size
  if has_hold then
    local ends_at, id
    ends_at, id, at = unpack_struct('>dc16', record, at)
    -- It may have been renewed.
    ends_at = holds.find(hold_key, id) or ends_at
    details = details .. struct.pack('>ddddd', ends_at, unpack_struct('>I4I4I4I4', id))
  end
  for index = 1, #group.executors do
    local key, code, size, state, more = keys[index]
    code, size, at = unpack_struct('>I1I2', record, at)
    state, at = string.sub(record, at, at + size - 1), at + size
    size, at = unpack_struct('>I2', record, at)
    more, at = string.sub(record, at, at + size - 1), at + size
    local executor = executor_of(group, index, key)
    if executor.outcome_of(key, 0) ~= OUTCOME_UNREADABLE and context.has_ended[key] then
      context.has_ended[key] = nil
      executor.mark_rewrite(key)
    end
    local outcome = context.outcome_count + 1
    context.outcome_count, context.states[#context.states + 1] = outcome, state
    if code ~= OUTCOME_ADMITTED then
      context.outcome_codes[outcome], context.details[outcome] = code, more
    end
  end
  return first_at, details
end

-- The record of a call whose outcomes begin at a number, and whose states follow those before it.
local function record_of(units, hold, first, states_before)
  local parts = { struct.pack('>d', context.now), units, hold }
  for outcome = first, context.outcome_count do
    local state = context.states[states_before + outcome - first + 1]
    local details = context.details[outcome] or ''
    local code = context.outcome_codes[outcome] or OUTCOME_ADMITTED
    parts[#parts + 1] = struct.pack('>I1I2', code, #state) .. state .. struct.pack('>I2', #details) .. details
  end
  return table.concat(parts)
end

-- The reply to a repeated call that cannot get its permit again, instead of the time of the first call.
local REFUSED_AGAIN = 1

-- Renews the permit of a call and its hold. If the permit is no longer held, takes it again under the
-- policies for concurrency alone. A call that waits has a ticket of its own id, because others may wait for
-- the same permit. Records the outcomes and returns `false` if they refuse it, or if the hold cannot be
-- written.
local function hold_permit(group, keys, hold_key, record, units, request, hold_lasting)
  local id = string.sub(record, 17 + #units, 32 + #units)
  local permit, held, all = permit_of(id), 0, 0
  local function renew_hold()
    local ends_at, hold_units = holds.find(hold_key, id)
    if ends_at then
      return holds.change(hold_key, id, hold_units, hold_units, math.max(ends_at, end_of(context, hold_lasting)))
    end
  end
  for _, executor in ipairs(group.executors) do
    all = all + (executor.permit_functions and 1 or 0)
  end
  for_each_permit(group, keys, function(permits, key)
    held = held + (permits.renew(key, permit) and 1 or 0)
  end)
  local first, states_before = context.outcome_count + 1, #context.states
  if all > 0 and held == all then
    -- The call waits no more.
    for_each_permit(group, keys, function(permits, key)
      permits.drop_ticket(key, request.id)
    end)
    local failure = renew_hold()
    if failure ~= nil then
      report_status(group, keys)
      fail_from(first, failure)
    end
    return failure == nil
  end
  for_each_permit(group, keys, function(permits, key)
    permits.release(key, permit)
  end)
  local cost, old = context.is_metered and {} or unpack_struct('>d', units), context.outcome_count
  for index = 1, context.is_metered and #group.executors or 0 do
    cost[index] = unpack_struct('>d', units, 8 * index - 7)
  end
  cost, request.permit = only_permits(group, cost), permit
  if not acquire(group, keys, cost, request, renew_hold) then
    if has_units(cost) then
      return false
    end
    renew_hold()
  end
  -- The reply is that to the first call.
  for outcome = first, context.outcome_count do
    context.outcome_codes[outcome], context.details[outcome] = nil, nil
    context.states[states_before + outcome - old] = nil
  end
  context.outcome_count = old
  return true
end

operations[OPERATION_REPEATABLE] = function(group, keys, at, key_offset, kind)
  holds = holds or new_holds(context)
  local hold_number, id_size, lasting, hold_id, hold_lasting, cost
  hold_number, id_size, at = unpack_struct('>I2I1', context.request, at)
  local name = padded(string.char(kind) .. string.sub(context.request, at - 1, at + id_size - 1))
  lasting, at = unpack_struct('>d', context.request, at + id_size)
  local has_hold, hold_key, request = kind ~= OPERATION_TAKE, key_offset + hold_number, nil
  if has_hold then
    hold_id, at = unpack_struct('>c16', context.request, at)
  end
  local at_cost = at
  cost, at = read_units(context, group, at)
  local units = string.sub(context.request, at_cost, at - 1)
  if has_hold then
    hold_lasting, at = unpack_struct('>d', context.request, at)
  end
  if kind == OPERATION_ACQUIRE then
    request = { id = permit_of(hold_id) }
    request.waited, at = unpack_struct('>d', context.request, at)
  end
  -- A permit need not have a hold.
  local adds_hold = has_hold and not (request and hold_lasting == 0)
  local first, states_before = context.outcome_count + 1, #context.states
  if hold_number == 0 or group.is_stale then
    if request then
      acquire(group, keys, cost, request)
    else
      take(context, group, keys, cost)
    end
    return at, 0
  end

  local layout = layout_of(group) .. string.char(#units)
  local record, earlier, failure = find_call(hold_key, name, layout)
  local new_calls = group.new_calls or {}
  group.new_calls = new_calls
  local place = KEYS[hold_key] .. name
  if record then
    units = string.sub(record, 9, 8 + #units)
    if request and not hold_permit(group, keys, hold_key, record, units, request, hold_lasting) then
      return at, REFUSED_AGAIN, units
    end
    local first_at, details = repeat_reply(group, keys, hold_key, record, #units, has_hold)
    -- It fails if its keys cannot be written, as a first call of the same group does.
    for outcome = first, (request or new_calls[place]) and context.outcome_count or 0 do
      group.key_of_outcome[outcome] = keys[outcome - first + 1]
    end
    return at, first_at, details
  end
  if failure ~= nil then
    report_status(group, keys)
    fail_from(first, failure)
    return at, 0
  end
  if holds.is_full(hold_key) then
    refuse_hold(group, keys)
    return at, 0
  end

  local hold_ends_at = has_hold and end_of(context, hold_lasting)
  local score = string.format('%.1f', end_of(context, lasting) - 0.5)
  local function remove()
    redis.pcall('ZREM', KEYS[hold_key], name, place)
    if adds_hold then
      holds.remove(hold_key, hold_id, units)
    end
  end
  -- The name first, because Redis may lack the memory. After this write it accepts all others.
  local function write()
    local refused = adds_hold and holds.add(hold_key, hold_id, units, hold_ends_at) or nil
    if refused == nil then
      if earlier then
        redis.pcall('ZREM', KEYS[hold_key], name, earlier)
      end
      refused = holds.add_members(hold_key, score, name)
    end
    return refused
  end
  write = has_units(cost) and write
  local is_admitted
  if request then
    is_admitted = acquire(group, keys, cost, request, write)
  else
    is_admitted = take(context, group, keys, cost, write)
  end
  if is_admitted and has_units(cost) then
    local hold = has_hold and struct.pack('>d', hold_ends_at) .. hold_id or ''
    place = padded(name .. layout .. record_of(units, hold, first, states_before))
    redis.call('ZADD', KEYS[hold_key], score, place)
    new_calls[KEYS[hold_key] .. name] = true
    holds.undo_on_failure(group, first, remove)
  end
  return at, 0
end
