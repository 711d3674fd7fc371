-- General path: decides any call under any policies. This file opens groups of calls, records their
-- outcomes and writes their keys.
--
-- An algorithm's file defines a function of the context, a text, and the position of a policy's
-- numbers in that text. The function returns an executor: the functions that read, decide, charge
-- and write the keys of this policy. An executor has:
--
-- after                the position after the policy's numbers
-- is_string            whether values are strings, which `read` receives
-- reports_limits       whether the state is too large for the reply, so that `encode_state` returns
--                      the status of each limit
-- is_stale             whether the request is for another time than now: nothing can be decided
-- dirty_keys           the keys to write
-- write_modes          their write modes by key (see dirty_keys.lua)
-- suffixes             by key: the key metadata after the state, if `read` finds it (see
--                      key_metadata.lua)
-- read(key, value)     reads a key, once and before any other function; repairs a state that a
--                      clock step left too far ahead. A repair that rewrites units of earlier calls is
--                      written only after `repair`
-- repair(key)          makes such a repair take effect. Returns the time from which the key was to be
--                      fresh, or nil if there was no such repair. Fixed windows, sliding windows,
--                      sliding counters and logs have it
-- kept                 by key: set until `repair`, if there is such a repair
-- outcome_of(key, cost)
--                      the outcome of a call
-- charge(key, cost)    charges the cost for which `outcome_of` last returned ADMITTED
-- record_refused(key, cost)
--                      counts a refused call; nil if refused calls do not count
-- refund(key, units, taken)
--                      refunds units of an earlier charge, and returns their number. `taken` has its
--                      time `at`, its `reset_at`, its `cost`, the units `used` after it, those that are
--                      `kept`, how far they have `moved` since, and the `early` units of the mark. The
--                      third result is how far the units of other calls have moved; the fourth one of
--                      fixed windows the early units after it
-- refunds_immediately  whether `refund` writes the key itself. The key must be flushed before and
--                      reloaded after. `refund` then also returns whether the key is fresh.
-- ends_on_milliseconds whether reset times are whole milliseconds, so that decisions do not round them
-- reset_at(key)        the time from which the key is fresh; concurrency lacks it
-- encode_state(key, cost, outcome, owed)
--                      the state for the reply, and the numbers of the state if they differ from
--                      the policy's. With `reports_limits`, the times for costs after `owed` units are
--                      paid, at most for the capacity
-- accepts_override(numbers)
--                      whether the numbers of an override have the layout of the policy's. Without
--                      this function all do.
-- mark_rewrite(key)    marks a key whose state is unchanged, so that it is written
-- booking_functions()  functions for booking slots; only rates have them
-- permit_functions     functions for permits; only concurrency has them
-- write(key)           writes a key; returns Redis's error if that failed

-- A new group. `executors` are by policy; `all_executors` are those and the executors opened later.
-- `executor_of` is by key, for keys that the policy's own executor does not hold. `key_of_outcome`
-- is by outcome: if the key cannot be written, the outcome fails. `undo_hold` is by outcome: the
-- function that undoes a change of a hold if the outcome fails.
local function new_group()
  return { executors = {}, all_executors = {}, executor_of = {}, key_of_outcome = {}, undo_hold = {} }
end

-- Opens the executor of a policy whose numbers are in the request.
local function open_policy(context, group, algorithm, at)
  local executor = algorithm(context, context.request, at)
  executor.algorithm, executor.at = algorithm, at
  group.executors[#group.executors + 1] = executor
  group.all_executors[#group.all_executors + 1] = executor
  group.is_stale = group.is_stale or executor.is_stale
  return executor
end

-- Opens a group of one policy.
local function open_group(context, algorithm, at)
  local group = new_group()
  open_policy(context, group, algorithm, at)
  return group
end

-- Opens an executor for an override, whose numbers replace the first numbers of the policy.
local function open_override(context, group, executor, numbers)
  local text = numbers .. string.sub(context.request, executor.at + #numbers)
  local override = executor.algorithm(context, text, 1)
  group.all_executors[#group.all_executors + 1] = override
  override.override_numbers = numbers
  return override
end

-- Whether an override of the key decides. One with another number of limits does not: it was set
-- under policies of another deployment.
local function is_overridden(context, executor, metadata)
  local numbers = metadata.override_numbers
  return metadata.override_until > context.now and numbers ~= ''
    and (not executor.accepts_override or executor.accepts_override(numbers))
end

-- Makes the repair of a key take effect.
local function repair_key(context, executor, key)
  local until_time = executor.repair and executor.repair(key)
  if until_time then
    invalidate(context, key, until_time)
  end
end

-- Reads a key into the policy's executor, and also into the executor of its override if one
-- decides. With `is_kept`, its repair does not take effect yet.
local function load_key(context, group, executor, key, value, is_kept)
  local state, metadata = value
  if value and executor.is_string then
    state, metadata = split_metadata(value)
  end
  executor.read(key, state)
  if executor.suffixes and executor.suffixes[key] then
    state, metadata = split_metadata(executor.suffixes[key])
  end
  context.key_metadata[key], context.has_ended[key] = metadata, nil
  if metadata and context.is_peek then
    drop_ended_mark(context, metadata)
  elseif metadata then
    context.has_ended[key] = drop_ended(context, metadata) or nil
  end
  if metadata and is_overridden(context, executor, metadata) then
    executor = open_override(context, group, executor, metadata.override_numbers)
    executor.read(key, state)
    group.executor_of[key] = executor
  end
  if not is_kept then
    repair_key(context, executor, key)
  end
end

-- Records the outcome of a call under one policy, and the state for the reply.
local function record_outcome(context, group, executor, key, cost, outcome)
  local count, metadata = context.outcome_count + 1, context.key_metadata[key]
  if context.has_ended[key] and outcome ~= OUTCOME_UNREADABLE then
    -- Drops the parts that have ended, also if the call is refused.
    context.has_ended[key] = nil
    executor.mark_rewrite(key)
  end
  local owed = metadata and metadata.owed or 0
  local state, other = executor.encode_state(key, cost, outcome, owed)
  context.outcome_count, group.key_of_outcome[count] = count, key
  context.states[#context.states + 1] = state
  local code, details = outcome, other
  if other then
    code = code + OUTCOME_OTHER_NUMBERS
  end
  if executor.override_numbers then
    code, details = code + OUTCOME_OVERRIDDEN,
      executor.override_numbers .. struct.pack('>d', metadata.override_until) .. (other or '')
  end
  if metadata and metadata.blocked_until > context.now then
    local step = ban_step(context, metadata) or 0
    code, details = code + OUTCOME_BLOCKED, (details or '') .. struct.pack('>dd', metadata.blocked_until, step)
  end
  if owed > 0 then
    code, details = code + OUTCOME_OWED, (details or '')
      .. struct.pack('>dddd', owed, metadata.owed_at, metadata.owed_capacity, metadata.owed_period)
  end
  local moved = metadata and metadata.moved or 0
  if executor.kept and executor.kept[key] then
    -- As after the repair.
    moved = moved + 1
  end
  if outcome == OUTCOME_ADMITTED and moved > 0 then
    code, details = code + OUTCOME_MARKED, (details or '') .. struct.pack('>d', moved)
  end
  if code ~= OUTCOME_ADMITTED then
    context.outcome_codes[count], context.details[count] = code, details
  end
end

-- The units under a policy. Units are one number for all policies, or a table by policy.
local function units_of(units, index)
  return type(units) == 'table' and units[index] or units
end

-- Reads units from the request: a number, or a table by policy. Returns also the position after them.
local function read_units(context, group, at)
  if not context.is_metered then
    return struct.unpack('>d', context.request, at)
  end
  local units = { struct.unpack('>' .. string.rep('d', #group.executors), context.request, at) }
  return units, table.remove(units)
end

-- Takes a cost from a key of each policy. Either all policies charge their units of it, or none. If all
-- admit it, `write_hold` runs first, and if it returns an error, nothing is charged. With
-- `skip_refused`, a refused call is not counted, and is no strike. Returns whether the cost was
-- charged.
local function take(context, group, keys, cost, write_hold, skip_refused)
  pay(context, group, keys)
  local executor_of, outcomes, admitted = group.executor_of, {}, true
  local may_strike = context.ban and not context.is_peek
  local costs = type(cost) == 'table' and cost
  for index, executor in ipairs(group.executors) do
    local key = keys[index]
    executor = executor_of[key] or executor
    local own_cost = costs and costs[index] or cost
    -- The client computes the outcome of a peek from the state, unless the reply has only limits.
    if context.is_peek and not executor.reports_limits then
      own_cost = 0
    end
    outcomes[index] = group.is_stale and OUTCOME_STALE or executor.outcome_of(key, own_cost)
    local metadata = context.key_metadata[key]
    if metadata and metadata.blocked_until > context.now then
      -- A call that a block refuses is not counted.
      admitted, skip_refused = false, true
    end
    admitted = admitted and outcomes[index] == OUTCOME_ADMITTED
    may_strike = may_strike and outcomes[index] <= OUTCOME_REFUSED
  end
  may_strike = may_strike and not skip_refused
  local first, failure = context.outcome_count + 1
  if write_hold and admitted then
    failure = write_hold()
    admitted = failure == nil
  end
  if may_strike and not admitted then
    strike(context, group, keys, outcomes)
  end
  for index, executor in ipairs(group.executors) do
    local key = keys[index]
    executor = executor_of[key] or executor
    local own_cost = costs and costs[index] or cost
    if not context.is_peek then
      if admitted and own_cost > 0 then
        executor.charge(key, own_cost)
        if context.key_metadata[key] then
          context.key_metadata[key].excused_from = 0
        end
      elseif executor.record_refused and outcomes[index] == OUTCOME_REFUSED and not skip_refused then
        executor.record_refused(key, own_cost)
      end
    end
    record_outcome(context, group, executor, key, own_cost, outcomes[index])
  end
  if failure ~= nil then
    for outcome = first, context.outcome_count do
      fail(context, outcome, failure)
    end
  end
  return admitted
end

-- Decides a call that a fast path left to the general path.
local function load_and_take(context, group, key, value, cost)
  if not group.is_stale then
    load_key(context, group, group.executors[1], key, value)
  end
  take(context, group, { key }, cost)
end

-- Fails the outcomes that depend on a key that was not written.
local function fail_key(context, group, key, reply)
  for outcome, other in pairs(group.key_of_outcome) do
    if other == key then
      fail(context, outcome, reply)
    end
  end
end

-- Writes the dirty keys of a group. A stale group writes none: earlier calls may be stale, too, and
-- be decided after it, on keys that its policies must not have repaired.
local function write_group(context, group)
  if context.is_peek or group.is_stale then
    return
  end
  for _, executor in ipairs(group.all_executors) do
    for _, key in ipairs(executor.dirty_keys) do
      local current = group.executor_of[key] or executor
      if current == executor and executor.write_modes[key] then
        extend_mark(context, executor, key)
        local reply = executor.write(key)
        if reply ~= nil then
          fail_key(context, group, key, reply)
        end
      end
    end
  end
  for outcome, undo in pairs(group.undo_hold) do
    local code = context.outcome_codes[outcome]
    if code == OUTCOME_UNWRITTEN or code == OUTCOME_UNREADABLE then
      undo()
    end
  end
end
