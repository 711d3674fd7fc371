-- The general way to decide: any policies, any calls.
--
-- An algorithm's file brings a function that opens the books of one policy, on some of the keys:
--   after             where the request goes on behind the policy's numbers
--   strings           whether a key's value is a string, which `read` is then given
--   stale             whether the request is about another time than the script's: nothing can be decided
--   dirty             the keys that must be written
--   read(key, value)  reads a key, once, before anything else is done with it; repairs what a clock step left
--   admits(key, cost)         what would become of a cost
--   charge(key, cost)         charges the cost that it was asked for last and would admit
--   refuse(key, cost)         writes down a refused call, where such calls count
--   tell(key, cost, outcome)  what is told of a key's state after a call; and what follows, if that is in other
--                             numbers than the policy's
--   save(key)         writes a key that is dirty; answers with what Redis said if that failed

-- Opens the books of one policy as those of a group.
local function open(round, algorithm, at)
  local books = algorithm(round, at)
  -- By outcome: its key, of those who must hear if it is not written.
  books.key_of = {}
  books.alone = { books, stale = books.stale }
  return books
end

-- Decides a call: all policies charge it, or none.
local function take(round, all, keys, cost)
  local own, admitted = {}, true
  for index, books in ipairs(all) do
    own[index] = all.stale and round.STALE or books.admits(keys[index], cost)
    admitted = admitted and own[index] == round.ADMITTED
  end
  local states, count = round.states, round.count
  for index, books in ipairs(all) do
    local key, outcome = keys[index], own[index]
    if not round.peeks then
      if admitted and cost > 0 then
        books.charge(key, cost)
      elseif outcome == round.REFUSED and books.refuse then
        books.refuse(key, cost)
      end
    end
    count = count + 1
    if outcome ~= round.ADMITTED then
      round.outcomes[count] = outcome
    end
    books.key_of[count] = key
    states[#states + 1], round.others[count] = books.tell(key, cost, outcome)
  end
  round.count = count
end

-- Decides one unit on a key that the quick way leaves aside.
local function take_one(round, books, key, value)
  if not books.stale then
    books.read(key, value)
  end
  take(round, books.alone, { key }, 1)
end

-- Writes what has changed.
local function close(round, books)
  if round.peeks then
    return
  end
  for _, key in ipairs(books.dirty) do
    local written = books.save(key)
    if written ~= nil then
      for outcome, other in pairs(books.key_of) do
        if other == key then
          fail(round, outcome, written)
        end
      end
    end
  end
end
