-- Calls that may be repeated: takes and reservations with an identifier. A call that was charged is
-- remembered in the set of holds of its key, and one with the same identifier gets the same reply. The
-- twin of `repeats.rs`. A refused call has charged nothing, and is not remembered.
--
-- A remembered call has two members, whose score is its expiry in microseconds less one half: so no hold
-- is between them. The first is its name: the operation and the length of the identifier (one byte
-- each), and the identifier. The second is the name and the record:
--
-- layout     for each policy: its algorithm (one byte), and the bytes of its numbers in requests (two)
-- one byte   the bytes of the units
-- a double   the time of the decision
-- units      a double, or one for each policy
-- hold       of a reservation: its end (a double), and its identifier
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
  local rank = redis.pcall('ZRANK', KEYS[key], name)
  if type(rank) == 'table' then
    return nil, nil, false
  end
  if not rank then
    return nil
  end
  local found = redis.pcall('ZRANGE', KEYS[key], rank, rank + 1, 'WITHSCORES')
  local member = found[3]
  if not member or string.sub(member, 1, #name) ~= name then
    return nil
  end
  local is_open = tonumber(found[2]) > context.now
  local is_like = string.sub(member, #name + 1, #name + #layout) == layout
  return is_open and is_like and string.sub(member, #name + #layout + 1) or nil, member
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

operations[OPERATION_REPEATABLE] = function(group, keys, at, key_offset, kind)
  holds = holds or new_holds(context)
  local hold_number, id_size, lasting, hold_id, hold_lasting, cost
  hold_number, id_size, at = unpack_struct('>I2I1', context.request, at)
  local name = padded(string.char(kind) .. string.sub(context.request, at - 1, at + id_size - 1))
  lasting, at = unpack_struct('>d', context.request, at + id_size)
  local has_hold, hold_key = kind == OPERATION_RESERVE, key_offset + hold_number
  if has_hold then
    hold_id, at = unpack_struct('>c16', context.request, at)
  end
  local at_cost = at
  cost, at = read_units(context, group, at)
  local units = string.sub(context.request, at_cost, at - 1)
  if has_hold then
    hold_lasting, at = unpack_struct('>d', context.request, at)
  end
  local first, states_before = context.outcome_count + 1, #context.states
  if hold_number == 0 or group.is_stale then
    take(context, group, keys, cost)
    return at, 0
  end

  local layout = layout_of(group) .. string.char(#units)
  local record, earlier, failure = find_call(hold_key, name, layout)
  local new_calls = group.new_calls or {}
  group.new_calls = new_calls
  local place = KEYS[hold_key] .. name
  if record then
    local first_at, details = repeat_reply(group, keys, hold_key, record, #units, has_hold)
    -- A first call of the same group fails if its keys cannot be written.
    for outcome = first, new_calls[place] and context.outcome_count or 0 do
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
    if has_hold then
      holds.remove(hold_key, hold_id, units)
    end
  end
  -- The name first, because Redis may lack the memory. After this write it accepts all others.
  local is_charged = take(context, group, keys, cost, has_units(cost) and function()
    local refused = has_hold and holds.add(hold_key, hold_id, units, hold_ends_at) or nil
    if refused == nil then
      if earlier then
        redis.pcall('ZREM', KEYS[hold_key], name, earlier)
      end
      refused = holds.add_members(hold_key, score, name)
    end
    return refused
  end) and has_units(cost)
  if is_charged then
    local hold = has_hold and struct.pack('>d', hold_ends_at) .. hold_id or ''
    place = padded(name .. layout .. record_of(units, hold, first, states_before))
    redis.call('ZADD', KEYS[hold_key], score, place)
    new_calls[KEYS[hold_key] .. name] = true
    holds.undo_on_failure(group, first, remove)
  end
  return at, 0
end
