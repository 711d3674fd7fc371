-- What the scripts share: what is asked, what became of it, and how keys are written.
--
-- ARGV[1]  what is asked, in groups of calls of one limiter: the number of its keys, which follow on those
--          of the group before; the number of its calls, or 0 if there is one call of one unit for each key;
--          the policy; then the calls, each with the number of its key (from 1) and its cost
-- ARGV[2]  'peek': nothing is written
--
-- All keys are read first. Then group by group: all calls are decided, and only then are keys written.
--
-- Answers with the time; the states that the calls left, two doubles each; what became of the calls, one byte
-- each, or nothing if all are ADMITTED; the numbers of the states that are not in the policy's; and at the
-- end a text for each call that is UNWRITTEN.
local ADMITTED = 0
local REFUSED = 1
local IMPOSSIBLE = 2
local UNREADABLE = 3 -- the key holds something that no limiter wrote
local UNWRITTEN = 4 -- Redis refused to write the key, and says why
local STALE = 5 -- what the script was told of the time is about another time: to be asked again, with the server's
local OTHER = 8 -- added to an outcome whose state is in other numbers than the policy's

local request, peeks = ARGV[1], ARGV[2] == 'peek'
local names, write = KEYS, redis.pcall

-- By call: its key; its outcome, unless it is ADMITTED; and what belongs to it.
local calls, key_of, outcomes, numbers_of, texts = 0, {}, {}, {}, {}

-- A replica writes nothing: then the whole script has not run, and may be sent again to a master.
local readonly

-- Notes why a key was not written as the outcome of its calls, which begin at the given one.
local function fail(key, first_call, written)
  local outcome, text = UNREADABLE
  if type(written) == 'table' and written.err then
    outcome, text = UNWRITTEN, written.err
    if string.sub(text, 1, 8) == 'READONLY' then
      readonly = written
    end
  end
  for call = first_call, calls do
    if key_of[call] == key then
      outcomes[call], texts[call] = outcome, text
    end
  end
end

-- The keys to be written, and how, by key: 1 with the TTL as it is, 2 with a new one, 3 if there was none.
local dirty, how = {}, {}

local function mark(key, as)
  if not how[key] then
    dirty[#dirty + 1] = key
    how[key] = as
  elseif how[key] < as then
    how[key] = as
  end
end

-- Writes the value of a key that has been marked, if it is a string, with a TTL in milliseconds.
local function save(key, value, ttl)
  local written
  if how[key] == 1 then
    written = write('SET', names[key], value, 'KEEPTTL')
  elseif how[key] == 2 then
    written = write('SET', names[key], value, 'PX', ttl)
  else
    -- MGET cannot tell a missing key from one of another type: that one must not be overwritten.
    written = write('SET', names[key], value, 'PX', ttl, 'NX')
  end
  if not written or written.err then
    fail(key, 1, written)
  end
end

local function answered(states)
  if readonly then
    return readonly
  end
  local answer = { now, states, '', '' }
  if next(outcomes) then
    local codes, others = {}, {}
    for call = 1, calls do
      local outcome = outcomes[call] or ADMITTED
      codes[call] = string.char(outcome)
      if outcome >= OTHER then
        others[#others + 1] = numbers_of[call]
      elseif outcome == UNWRITTEN then
        answer[#answer + 1] = texts[call]
      end
    end
    answer[3], answer[4] = table.concat(codes), table.concat(others)
  end
  return answer
end
