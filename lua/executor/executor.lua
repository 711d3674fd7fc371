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
  return { policies = {}, opened = {}, owners = {}, heard = {}, undo = {} }
end

-- Opens books of a policy whose numbers stand in the request.
local function open_policy(round, group, algorithm, at)
  local books = algorithm(round, round.request, at)
  books.algorithm, books.at = algorithm, at
  group.policies[#group.policies + 1] = books
  group.opened[#group.opened + 1] = books
  group.stale = group.stale or books.stale
  return books
end

-- A group of one policy.
local function open_group(round, algorithm, at)
  local group = new_group()
  open_policy(round, group, algorithm, at)
  return group
end

-- The books of a policy with other numbers than the request's: they take the place of the first.
local function with_numbers(round, group, books, numbers)
  local text = numbers .. string.sub(round.request, books.at + #numbers)
  local own = books.algorithm(round, text, 1)
  group.opened[#group.opened + 1] = own
  own.numbers = numbers
  return own
end

-- Reads a key into books, and if it has numbers in force of its own into books of those.
local function read(round, group, books, key, value)
  local state, extras = value
  if value and books.strings then
    state, extras = split(value)
  end
  books.read(key, state)
  if books.trailers and books.trailers[key] then
    state, extras = split(books.trailers[key])
  end
  round.extras[key] = extras
  if extras and extras.ends > round.now and extras.numbers ~= '' then
    books = with_numbers(round, group, books, extras.numbers)
    books.read(key, state)
    group.owners[key] = books
  end
end

-- Notes the outcome of a call under a policy, and what is told of the state.
local function note(round, group, books, key, cost, outcome)
  local count, extras = round.count + 1, round.extras[key]
  local state, other = books.tell(key, cost, outcome)
  round.count, group.heard[count] = count, key
  round.states[#round.states + 1] = state
  local code, more = outcome, other
  if other then
    code = code + round.OTHER
  end
  if books.numbers then
    code, more = code + round.OVERRIDDEN, books.numbers .. struct.pack('>d', extras.ends) .. (other or '')
  end
  if extras and extras.blocked > round.now then
    code, more = code + round.BLOCKED, (more or '') .. struct.pack('>d', extras.blocked)
  end
  if code ~= round.ADMITTED then
    round.outcomes[count], round.more[count] = code, more
  end
end

-- Takes a cost from a key of each policy: all charge it, or none. `hold` is called first if all admit it; if it answers
-- with why something was not written, nothing is charged. A refused call is not counted if it is `uncounted`. Tells whether
-- all have charged it.
local function take(round, group, keys, cost, hold, uncounted)
  local owners, own, admitted = group.owners, {}, true
  for index, books in ipairs(group.policies) do
    local key = keys[index]
    books = owners[key] or books
    -- What becomes of a peek is seen from the state, if that is told.
    own[index] = group.stale and round.STALE or books.admits(key, round.peeks and not books.tells and 0 or cost)
    local extras = round.extras[key]
    if extras and extras.blocked > round.now then
      -- Nor is what a block refuses counted.
      admitted, uncounted = false, true
    end
    admitted = admitted and own[index] == round.ADMITTED
  end
  local first, failed = round.count + 1
  if hold and admitted then
    failed = hold()
    admitted = failed == nil
  end
  for index, books in ipairs(group.policies) do
    local key = keys[index]
    books = owners[key] or books
    if not round.peeks then
      if admitted and cost > 0 then
        books.charge(key, cost)
      elseif books.refuse and own[index] == round.REFUSED and not uncounted then
        books.refuse(key, cost)
      end
    end
    note(round, group, books, key, cost, own[index])
  end
  if failed ~= nil then
    for outcome = first, round.count do
      fail(round, outcome, failed)
    end
  end
  return admitted
end

-- Decides a call on a key that a quick way leaves aside.
local function take_one(round, group, key, value, cost)
  if not group.stale then
    read(round, group, group.policies[1], key, value)
  end
  take(round, group, { key }, cost)
end

-- Tells all who must hear it that a key was not written.
local function fail_all(round, group, key, written)
  for outcome, other in pairs(group.heard) do
    if other == key then
      fail(round, outcome, written)
    end
  end
end

-- Writes what has changed.
local function close(round, group)
  if round.peeks then
    return
  end
  for _, books in ipairs(group.opened) do
    for _, key in ipairs(books.dirty) do
      local owner = group.owners[key] or books
      if owner == books and books.how[key] then
        local written = books.save(key)
        if written ~= nil then
          fail_all(round, group, key, written)
        end
      end
    end
  end
  for outcome, undo in pairs(group.undo) do
    local code = round.outcomes[outcome]
    if code == round.UNWRITTEN or code == round.UNREADABLE then
      undo()
    end
  end
end
