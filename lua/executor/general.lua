-- By the number that a request gives them.
local algorithms = {
  rate, fixed_window, sliding_counter, token_bucket_interval, sliding_window_list, sliding_window_hash, sliding_log,
}

-- Decides a group of any calls; answers with where the request goes on, and the last of the group's keys.
--
-- The number of calls (two bytes), or 0 if there is one of one unit on the n-th key of each policy; the number of
-- subjects (one byte); the number of policies (one byte), and for each its algorithm and its subject (one byte each), the
-- number of its keys (two bytes) and its numbers; then the calls, each with the number of its operation (one byte), the
-- number of each subject's key (two bytes; 0 if it names none), and what the operation takes: a take its cost. In front of
-- all that: how many keys that keep holds follow on the policies' (two bytes), if calls are about holds.
local function decide(round, at, before, about_holds)
  local TAKE, unpack_struct = 1, struct.unpack
  local group, subjects_of, befores = new_group(), {}, {}
  local calls, subjects, policies, count
  local holds = 0
  if about_holds then
    holds, at = unpack_struct('>I2', round.request, at)
  end
  calls, subjects, policies, at = unpack_struct('>I2I1I1', round.request, at)
  for index = 1, policies do
    local algorithm
    algorithm, subjects_of[index], count, at = unpack_struct('>I1I1I2', round.request, at)
    local books = open_policy(round, group, algorithms[algorithm], at)
    befores[index] = before
    if not books.stale then
      local values = books.strings and count > 0 and redis.call('MGET', unpack(KEYS, before + 1, before + count))
      for key = before + 1, before + count do
        read(round, group, books, key, values and values[key - before])
      end
    end
    at, before = books.after, before + count
  end

  if calls == 0 then
    for number = 1, count do
      local keys = {}
      for index = 1, policies do
        keys[index] = befores[index] + number
      end
      take(round, group, keys, 1)
    end
  end
  local operations
  for _ = 1, calls do
    local operation, numbers, keys = nil, {}, {}
    operation, at = unpack_struct('>I1', round.request, at)
    for subject = 1, subjects do
      numbers[subject], at = unpack_struct('>I2', round.request, at)
    end
    for index = 1, policies do
      local number = numbers[subjects_of[index] + 1]
      keys[index] = number > 0 and befores[index] + number or 0
    end
    if operation == TAKE then
      local cost
      cost, at = unpack_struct('>d', round.request, at)
      take(round, group, keys, cost)
    else
      operations = operations or new_operations(round)
      local first, units, more = round.count + 1
      at, units, more = operations[operation](group, keys, at, before)
      round.units[first] = struct.pack('>d', units) .. (more or '')
    end
  end
  close(round, group)
  return at, before + holds
end

-- Gives a unit of a window back that a quick way has taken without a look, if it has, and tells what the value was.
local function untaken(name, window)
  if window then
    -- What there was before, if anything: 0 is nothing.
    redis.pcall(window == 1 and 'DEL' or 'DECR', name)
  end
  return redis.pcall('MGET', name)[1]
end

-- Decides the call on a key of a quick group, by default of one unit; answers with that group as the general way has it.
local function leave(round, group, algorithm, at, key, value, cost)
  group = group or open_group(round, algorithms[algorithm], at)
  take_one(round, group, key, value, cost or 1)
  return group
end

round.made = {
  algorithms = algorithms, new_group = new_group, open_policy = open_policy, read = read, take = take, leave = leave,
  close = close, decide = decide, fail = fail, untaken = untaken,
}
return round.made
