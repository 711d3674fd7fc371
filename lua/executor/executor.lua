-- The general way to decide: any policies, any calls.
--
-- An algorithm's file brings a function that opens books of one policy, whose numbers stand in a text from a place on:
--   after             where the text goes on behind the numbers
--   strings           whether a key's value is a string, which `read` is then given
--   tells             whether the state is too large to be sent, and `tell` answers with how the limits stand
--   stale             whether the request is about another time than the script's: nothing can be decided
--   dirty, how        the keys that must be written, and how (marks.lua)
--   trailers          by key: what stands behind the state, if `read` is what finds it (extras.lua)
--   read(key, value)  reads a key, once, before anything else is done with it; repairs what a clock step left
--   admits(key, cost)         what would become of a cost
--   charge(key, cost)         charges the cost that it was asked for last and would admit
--   refuse(key, cost)         writes down a refused call, where such calls count
--   refund(key, units, at, reset_at)  gives back units that were taken at a time, and tells how many
--   writes_refunds    whether it writes them at once, so that the key must be written before and read anew; then it
--                     tells, too, whether the key is as if never used now
--   tell(key, cost, outcome)  what is told of a key's state after a call; and what follows, if that is in other
--                             numbers than the policy's
--   touch(key)        has the key written as it is
--   bookings()        of rates: what booking ahead takes (rate.lua)
--   save(key)         writes a key; answers with what Redis said if that failed

-- What belongs to a group of calls: the books of its policies, and all that were opened; by key whose books hold it, if
-- not its policy's; by outcome its key, of those who must hear if it is not written; by outcome how what its call did to a
-- hold is undone then.
local function new_group()
  return { executors = {}, all_executors = {}, executor_of = {}, key_of_outcome = {}, undo_hold = {} }
end

-- Opens books of a policy whose numbers stand in the request.
local function open_policy(context, group, algorithm, at)
  local executor = algorithm(context, context.request, at)
  executor.algorithm, executor.at = algorithm, at
  group.executors[#group.executors + 1] = executor
  group.all_executors[#group.all_executors + 1] = executor
  group.is_stale = group.is_stale or executor.is_stale
  return executor
end

-- A group of one policy.
local function open_group(context, algorithm, at)
  local group = new_group()
  open_policy(context, group, algorithm, at)
  return group
end

-- The books of a policy with other numbers than the request's: they take the place of the first.
local function open_override(context, group, executor, numbers)
  local text = numbers .. string.sub(context.request, executor.at + #numbers)
  local override = executor.algorithm(context, text, 1)
  group.all_executors[#group.all_executors + 1] = override
  override.override_numbers = numbers
  return override
end

-- Reads a key into books, and if it has numbers in force of its own into books of those.
local function load_key(context, group, executor, key, value)
  local state, metadata = value
  if value and executor.is_string then
    state, metadata = split_metadata(value)
  end
  executor.read(key, state)
  if executor.suffixes and executor.suffixes[key] then
    state, metadata = split_metadata(executor.suffixes[key])
  end
  context.key_metadata[key] = metadata
  if metadata and metadata.override_until > context.now and metadata.override_numbers ~= '' then
    executor = open_override(context, group, executor, metadata.override_numbers)
    executor.read(key, state)
    group.executor_of[key] = executor
  end
end

-- Notes the outcome of a call under a policy, and what is told of the state.
local function record_outcome(context, group, executor, key, cost, outcome)
  local count, metadata = context.outcome_count + 1, context.key_metadata[key]
  local state, other = executor.encode_state(key, cost, outcome)
  context.outcome_count, group.key_of_outcome[count] = count, key
  context.states[#context.states + 1] = state
  local code, details = outcome, other
  if other then
    code = code + context.OTHER_NUMBERS
  end
  if executor.override_numbers then
    code, details = code + context.OVERRIDDEN,
      executor.override_numbers .. struct.pack('>d', metadata.override_until) .. (other or '')
  end
  if metadata and metadata.blocked_until > context.now then
    code, details = code + context.BLOCKED, (details or '') .. struct.pack('>d', metadata.blocked_until)
  end
  if code ~= context.ADMITTED then
    context.outcome_codes[count], context.details[count] = code, details
  end
end

-- Takes a cost from a key of each policy: all charge it, or none. `hold` is called first if all admit it; if it answers
-- with why something was not written, nothing is charged. A refused call is not counted if it is `uncounted`. Tells whether
-- all have charged it.
local function take(context, group, keys, cost, write_hold, skip_refused)
  local executor_of, outcomes, admitted = group.executor_of, {}, true
  for index, executor in ipairs(group.executors) do
    local key = keys[index]
    executor = executor_of[key] or executor
    -- What becomes of a peek is seen from the state, if that is told.
    outcomes[index] = group.is_stale and context.STALE
      or executor.outcome_of(key, context.is_peek and not executor.reports_limits and 0 or cost)
    local metadata = context.key_metadata[key]
    if metadata and metadata.blocked_until > context.now then
      -- Nor is what a block refuses counted.
      admitted, skip_refused = false, true
    end
    admitted = admitted and outcomes[index] == context.ADMITTED
  end
  local first, failure = context.outcome_count + 1
  if write_hold and admitted then
    failure = write_hold()
    admitted = failure == nil
  end
  for index, executor in ipairs(group.executors) do
    local key = keys[index]
    executor = executor_of[key] or executor
    if not context.is_peek then
      if admitted and cost > 0 then
        executor.charge(key, cost)
      elseif executor.record_refused and outcomes[index] == context.REFUSED and not skip_refused then
        executor.record_refused(key, cost)
      end
    end
    record_outcome(context, group, executor, key, cost, outcomes[index])
  end
  if failure ~= nil then
    for outcome = first, context.outcome_count do
      fail(context, outcome, failure)
    end
  end
  return admitted
end

-- Decides a call on a key that a quick way leaves aside.
local function load_and_take(context, group, key, value, cost)
  if not group.is_stale then
    load_key(context, group, group.executors[1], key, value)
  end
  take(context, group, { key }, cost)
end

-- Tells all who must hear it that a key was not written.
local function fail_key(context, group, key, reply)
  for outcome, other in pairs(group.key_of_outcome) do
    if other == key then
      fail(context, outcome, reply)
    end
  end
end

-- Writes what has changed.
local function write_group(context, group)
  if context.is_peek then
    return
  end
  for _, executor in ipairs(group.all_executors) do
    for _, key in ipairs(executor.dirty_keys) do
      local current = group.executor_of[key] or executor
      if current == executor and executor.write_modes[key] then
        local reply = executor.write(key)
        if reply ~= nil then
          fail_key(context, group, key, reply)
        end
      end
    end
  end
  for outcome, undo in pairs(group.undo_hold) do
    local code = context.outcome_codes[outcome]
    if code == context.UNWRITTEN or code == context.UNREADABLE then
      undo()
    end
  end
end
