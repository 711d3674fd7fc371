-- What is asked of keys beside taking units.

-- The operations, by the number that a request gives them (1 is a take); each is given the group, the keys by policy (0 is
-- a policy that is not concerned), where its own numbers stand in the request, and the key before the first that keeps
-- holds; it answers with where the request goes on, the units that it is about, and what doubles follow on them.
local function new_operations(round)
  local TAKE_UP_TO, PENALIZE, REFUND, RESET, BLOCK, UNBLOCK, OVERRIDE, CLEAR_OVERRIDE = 2, 3, 4, 5, 6, 7, 8, 9
  local RESERVE, SETTLE, BOOK, UNBOOK = 12, 13, 20, 21
  local holds
  local unpack_struct = struct.unpack

  local function owner(group, index, key)
    return group.owners[key] or group.policies[index]
  end

  local function is_blocked(key)
    local extras = round.extras[key]
    return extras and extras.blocked > round.now
  end

  -- The largest number up to `most` that `admits` is true of: it is so of all below one that it is so of.
  local function largest(most, admits)
    if most == 0 or admits(most) then
      return most
    end
    local low, high = 0, most
    while high - low > 1 do
      local middle = low + math.floor((high - low) / 2)
      if admits(middle) then
        low = middle
      else
        high = middle
      end
    end
    return low
  end

  -- Calls a function with each policy's books that hold one of the keys, if it can be read.
  local function each(group, keys, call)
    for index = 1, #group.policies do
      local key = keys[index]
      if key > 0 and not group.stale then
        local books = owner(group, index, key)
        if books.admits(key, 0) == round.ADMITTED then
          call(books, key, index)
        end
      end
    end
  end

  -- Notes how the keys stand.
  local function stand(group, keys)
    for index = 1, #group.policies do
      local key = keys[index]
      if key > 0 then
        local books = owner(group, index, key)
        note(round, group, books, key, 0, group.stale and round.STALE or books.admits(key, 0))
      end
    end
  end

  -- Writes a key now, forgets the books that hold it, and reads it anew. If it cannot be written, all is as it was, and
  -- those who must hear of it will.
  local function renew(group, index, key)
    local books = owner(group, index, key)
    if books.how[key] then
      if books.save(key) ~= nil then
        return
      end
      books.how[key] = nil
      for outcome, other in pairs(group.heard) do
        if other == key then
          group.heard[outcome] = nil
        end
      end
    end
    local policy = group.policies[index]
    local fresh = policy.algorithm(round, round.request, policy.at)
    fresh.algorithm, fresh.at = policy.algorithm, policy.at
    group.opened[#group.opened + 1] = fresh
    group.owners[key] = fresh
    local value = fresh.strings and redis.pcall('GET', KEYS[key])
    read(round, group, fresh, key, type(value) == 'string' and value)
  end

  -- Makes a key as if never used, but for what it has beside its state.
  local function forget(group, index, key, extras)
    local gone = redis.pcall('UNLINK', KEYS[key])
    if type(gone) ~= 'number' then
      fail_all(round, group, key, gone)
      return
    end
    owner(group, index, key).how[key] = nil
    renew(group, index, key)
    if extras and math.max(extras.blocked, extras.ends) > round.now then
      round.extras[key] = extras
      group.owners[key].touch(key)
      renew(group, index, key)
    end
  end

  local operations = {}

  operations[TAKE_UP_TO] = function(group, keys, at)
    local units, after = unpack_struct('>d', round.request, at)
    local most = largest(units, function(cost)
      for index, books in ipairs(group.policies) do
        books = owner(group, index, keys[index])
        if group.stale or is_blocked(keys[index]) or books.admits(keys[index], cost) ~= round.ADMITTED then
          return false
        end
      end
      return true
    end)
    -- That nothing is granted is no refused call.
    take(round, group, keys, math.max(most, 1), nil, most == 0)
    return after, most
  end

  -- Charges under each policy what is left, at most so many units; tells the most.
  local function charge_left(group, keys, units)
    local most = 0
    each(group, keys, function(books, key)
      local cost = largest(units, function(cost)
        return books.admits(key, cost) == round.ADMITTED
      end)
      if cost > 0 then
        books.admits(key, cost)
        books.charge(key, cost)
        most = math.max(most, cost)
      end
    end)
    return most
  end

  operations[PENALIZE] = function(group, keys, at)
    local units, after = unpack_struct('>d', round.request, at)
    local most = charge_left(group, keys, units)
    stand(group, keys)
    return after, most
  end

  -- Gives back units of a call that stands in the request, by policy; tells the most.
  local function give_back(group, keys, units, at)
    local most = 0
    for index = 1, #group.policies do
      local taken_at, reset_at
      taken_at, reset_at, at = unpack_struct('>dd', round.request, at)
      local key = keys[index]
      if key > 0 and not group.stale then
        local books = owner(group, index, key)
        -- A key is met as by a call with a cost. Nothing of the call is left once its reset time has passed, though under
        -- a longer window its units may count again.
        if books.admits(key, 1) ~= round.UNREADABLE and reset_at > round.now then
          if books.writes_refunds then
            renew(group, index, key)
            books = owner(group, index, key)
          end
          local back, is_unused = books.refund(key, units, taken_at, reset_at)
          most = math.max(most, back)
          if is_unused then
            forget(group, index, key, round.extras[key])
          elseif books.writes_refunds then
            renew(group, index, key)
          end
        end
      end
    end
    return most
  end

  operations[BOOK] = function(group, keys, at)
    local cost, max_wait, after = unpack_struct('>dd', round.request, at)
    local own, slot, may = {}, round.now, not group.stale
    for index, key in ipairs(keys) do
      if key > 0 then
        local books = owner(group, index, key)
        own[index] = group.stale and round.STALE or books.admits(key, cost)
        if not books.bookings and not group.stale and own[index] ~= round.UNREADABLE then
          own[index] = round.IMPOSSIBLE
        end
        may = may and own[index] <= round.REFUSED and not is_blocked(key)
        if may and own[index] == round.REFUSED then
          slot = math.max(slot, books.bookings().slot(key, cost))
        end
      end
    end
    may = may and slot - round.now <= max_wait
    local before = {}
    for index, key in ipairs(keys) do
      if key > 0 then
        local books = owner(group, index, key)
        if may then
          local bookings = books.bookings()
          before[#before + 1] = bookings.text_of(key)
          bookings.book(key, cost, slot)
        end
        note(round, group, books, key, cost, may and round.ADMITTED or own[index])
      end
    end
    return after, may and slot - round.now + 1 or 0, table.concat(before)
  end

  operations[UNBOOK] = function(group, keys, at)
    local STATE, count, asked, last, before = 56, 0, 0, 0, {}
    for index, key in ipairs(keys) do
      count, at = unpack_struct('>I1', round.request, at)
      asked = asked + count
      local books = owner(group, index, math.max(key, 1))
      if key > 0 then
        -- A key is met as by a call with a cost.
        local is_met = not group.stale and books.admits(key, 1) ~= round.UNREADABLE
        local left = string.sub(round.request, at + STATE, at + 2 * STATE - 1)
        if is_met and count > 0 and books.bookings and books.bookings().text_of(key) == left then
          last, before[index] = last + 1, string.sub(round.request, at, at + STATE - 1)
        else
          last = -#keys
        end
      end
      at = at + count * 2 * STATE
    end
    local is_last = last > 0 and last == asked
    for index, text in pairs(is_last and before or {}) do
      owner(group, index, keys[index]).bookings().restore(keys[index], text)
    end
    stand(group, keys)
    return at, is_last and 1 or 0
  end

  operations[REFUND] = function(group, keys, at)
    local units, after = unpack_struct('>d', round.request, at)
    local most = give_back(group, keys, units, after)
    stand(group, keys)
    return after + 16 * #group.policies, most
  end

  operations[RESERVE] = function(group, keys, at, before)
    holds = holds or new_holds(round)
    local number, id, cost, lasting, after = unpack_struct('>I2c16dd', round.request, at)
    local key, first = before + number, round.count + 1
    local admitted = take(round, group, keys, cost, number > 0 and function()
      return holds.put(key, id, round.now + lasting)
    end)
    if admitted then
      holds.undo(group, first, function()
        holds.drop(key, id)
      end)
    end
    return after, admitted and cost or 0
  end

  operations[SETTLE] = function(group, keys, at, before)
    holds = holds or new_holds(round)
    local number, id, units, actual, after = unpack_struct('>I2c16dd', round.request, at)
    local key, first, moved = before + number, round.count + 1, 0
    local readable = number > 0 and not group.stale
    for index = 1, #group.policies do
      local own = keys[index]
      readable = readable and (own == 0 or owner(group, index, own).admits(own, 0) == round.ADMITTED)
    end
    local ends, failed
    if readable then
      ends, failed = holds.ends(key, id)
      if ends then
        failed = holds.drop(key, id)
      end
    end
    local settles = ends and failed == nil
    if settles and actual < units then
      moved = give_back(group, keys, units - actual, after)
    elseif settles then
      moved = charge_left(group, keys, actual - units)
    end
    stand(group, keys)
    if settles then
      holds.undo(group, first, function()
        holds.put(key, id, ends)
      end)
    elseif failed ~= nil then
      for outcome = first, round.count do
        fail(round, outcome, failed)
      end
    end
    return after + 16 * #group.policies, settles and math.min(1 + moved, 9007199254740991) or 0
  end

  operations[RESET] = function(group, keys, at, before)
    local number, after = unpack_struct('>I2', round.request, at)
    if number > 0 and not group.stale then
      redis.pcall('UNLINK', KEYS[before + number])
    end
    for index = 1, #group.policies do
      local key = keys[index]
      if key > 0 and not group.stale then
        local extras = round.extras[key]
        if extras then
          extras.blocked = 0
        end
        forget(group, index, key, extras)
      end
    end
    stand(group, keys)
    return after, 0
  end

  operations[BLOCK] = function(group, keys, at)
    local lasting, after = unpack_struct('>d', round.request, at)
    each(group, keys, function(books, key)
      round.extras[key] = round.extras[key] or no_extras()
      round.extras[key].blocked = round.now + lasting
      books.touch(key)
    end)
    stand(group, keys)
    return after, 0
  end

  operations[UNBLOCK] = function(group, keys, at)
    each(group, keys, function(books, key)
      if round.extras[key] then
        round.extras[key].blocked = 0
        books.touch(key)
      end
    end)
    stand(group, keys)
    return at, 0
  end

  operations[OVERRIDE] = function(group, keys, at)
    local lasting, after = unpack_struct('>d', round.request, at)
    for index = 1, #group.policies do
      local count
      count, after = unpack_struct('>I1', round.request, after)
      local numbers = string.sub(round.request, after, after + count * 8 - 1)
      after = after + count * 8
      local key = keys[index]
      local books = owner(group, index, math.max(key, 1))
      if key > 0 and count > 0 and not group.stale and books.admits(key, 0) == round.ADMITTED then
        local extras = round.extras[key] or no_extras()
        extras.ends, extras.numbers = round.now + lasting, numbers
        round.extras[key] = extras
        books.touch(key)
        renew(group, index, key)
      end
    end
    stand(group, keys)
    return after, 0
  end

  operations[CLEAR_OVERRIDE] = function(group, keys, at)
    each(group, keys, function(books, key, index)
      if round.extras[key] then
        round.extras[key].ends = 0
        books.touch(key)
        renew(group, index, key)
      end
    end)
    stand(group, keys)
    return at, 0
  end

  return operations
end
