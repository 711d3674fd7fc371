-- General path: decides groups with calls of any kind, and calls that fast paths leave to it.

-- Whether an operation concerns a key alone. The twin of `Operation::concerns_key_alone` in Rust.
local function concerns_key_alone(operation)
  return operation == OPERATION_RESET or operation == OPERATION_BLOCK or operation == OPERATION_UNBLOCK
    or operation == OPERATION_OVERRIDE or operation == OPERATION_CLEAR_OVERRIDE
end

-- Decides a group with calls of any kind. Returns the position after the group and the group's last
-- key.
--
-- The group in the request:
--
-- two bytes  the number of keys for holds, after the policies' keys; only if `has_holds`
-- two bytes  the number of calls; 0 means one call of one unit on the n-th key of each policy
-- one byte   the number of key dimensions
-- one byte   the number of policies; for each: algorithm (one byte), key dimension (one byte),
--            number of keys (two bytes), the policy's numbers
-- calls      for each: operation (one byte), the number of the key in each key dimension (two
--            bytes, 0 if the call has no key there), the arguments of the operation (of a take its
--            cost, a double). With OPERATION_METERED added to the operation, units are by policy: one
--            double for each policy, where there is one double otherwise. With OPERATION_REPEATABLE added,
--            the call has an identifier: see repeats.lua
local function decide_group(context, at, key_offset, has_holds)
  local unpack_struct = struct.unpack
  local group, dimension_of, key_offsets = new_group(), {}, {}
  local call_count, dimension_count, policy_count, key_count
  local hold_count = 0
  if has_holds then
    hold_count, at = unpack_struct('>I2', context.request, at)
  end
  call_count, dimension_count, policy_count, at = unpack_struct('>I2I1I1', context.request, at)
  for index = 1, policy_count do
    local algorithm
    algorithm, dimension_of[index], key_count, at = unpack_struct('>I1I1I2', context.request, at)
    local executor = open_policy(context, group, algorithms[algorithm], at)
    key_offsets[index] = key_offset
    if not executor.is_stale then
      local values = executor.is_string and key_count > 0
        and redis.call('MGET', unpack(KEYS, key_offset + 1, key_offset + key_count))
      for key = key_offset + 1, key_offset + key_count do
        load_key(context, group, executor, key, values and values[key - key_offset], call_count > 0)
      end
    end
    at, key_offset = executor.after, key_offset + key_count
  end

  if call_count == 0 then
    for number = 1, key_count do
      local keys = {}
      for index = 1, policy_count do
        keys[index] = key_offsets[index] + number
      end
      take(context, group, keys, 1)
    end
  end
  local operations
  for _ = 1, call_count do
    local operation, numbers, keys = nil, {}, {}
    operation, at = unpack_struct('>I1', context.request, at)
    for dimension = 1, dimension_count do
      numbers[dimension], at = unpack_struct('>I2', context.request, at)
    end
    for index = 1, policy_count do
      local number = numbers[dimension_of[index] + 1]
      keys[index] = number > 0 and key_offsets[index] + number or 0
    end
    if not concerns_key_alone(operation) then
      for index, key in ipairs(keys) do
        if key > 0 and not group.is_stale then
          repair_key(context, group.executor_of[key] or group.executors[index], key)
        end
      end
    end
    if operation == OPERATION_TAKE then
      local cost
      cost, at = unpack_struct('>d', context.request, at)
      take(context, group, keys, cost)
    else
      operations = operations or new_operations(context)
      local kind
      if operation > OPERATION_REPEATABLE then
        operation, kind = OPERATION_REPEATABLE, operation - OPERATION_REPEATABLE
      end
      context.is_metered = (kind or operation) > OPERATION_METERED
      if context.is_metered then
        operation, kind = kind and operation or operation - OPERATION_METERED, kind and kind - OPERATION_METERED
      end
      if not concerns_key_alone(operation) then
        pay(context, group, keys)
      end
      local first, units, details = context.outcome_count + 1
      at, units, details = operations[operation](group, keys, at, key_offset, kind)
      if units then
        context.operation_results[first] = struct.pack('>d', units) .. (details or '')
      end
    end
  end
  write_group(context, group)
  return at, key_offset + hold_count
end

-- Undoes the increment of an optimistic fast path, if there was one. Returns the key's value.
local function undo_increment(name, counter)
  if counter then
    -- A counter of 1 means that the key had no value.
    redis.pcall(counter == 1 and 'DEL' or 'DECR', name)
  end
  return redis.pcall('MGET', name)[1]
end

-- Decides one call of a fast path's group; the cost is 1 by default. Returns the group of the
-- general path.
local function fall_back(context, group, algorithm, at, key, value, cost)
  group = group or open_group(context, algorithms[algorithm], at)
  load_and_take(context, group, key, value, cost or 1)
  return group
end

context.general_path = {
  algorithms = algorithms, new_group = new_group, open_policy = open_policy, load_key = load_key, take = take,
  fall_back = fall_back, write_group = write_group, decide_group = decide_group, fail = fail,
  undo_increment = undo_increment,
}
return context.general_path
