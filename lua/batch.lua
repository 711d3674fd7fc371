-- What the scripts share: what became of a call, and how keys are written.
--
-- A script reads all keys, decides all calls, and only then writes, each key once. It answers with a flat
-- list: now, then for each call its outcome and the two numbers of the state that it left, and at the end
-- what belongs to outcomes with OTHER.
local ADMITTED = 0
local REFUSED = 1
local IMPOSSIBLE = 2
local UNREADABLE = 3 -- the key holds something that no limiter wrote; the numbers mean nothing
local UNWRITTEN = 4 -- in place of the first number stands Redis's error text
local OTHER = 8 -- added to an outcome whose state is in other numbers than the policy's; they come at the end

local names, keys, write = KEYS, #KEYS, redis.pcall

-- The answer so far; and by call its key, or nil if there is one call for each key.
local answer, length, calls, keys_of = { now }, 1, 0, nil

-- The keys to be written; and how, by key: 1 with the TTL as it is, 2 with a new one, 3 if there was none.
local dirty, how = {}, {}

local function mark(key, as)
  if not how[key] then
    dirty[#dirty + 1] = key
    how[key] = as
  elseif how[key] < as then
    how[key] = as
  end
end

-- Puts what became of the writing of a key in place of the outcomes of its calls.
local function fail(key, outcome, text)
  for call = 1, calls do
    if (keys_of and keys_of[call] or call) == key then
      answer[call * 3 - 1], answer[call * 3] = outcome, text
    end
  end
end

-- A replica writes nothing: then the whole script has not run, and may be sent again to a master.
local readonly

-- Checks what became of a write: a key that cannot be written fails by itself.
local function check(key, written)
  if not written then
    fail(key, UNREADABLE, 0)
  elseif type(written) == 'table' and written.err then
    fail(key, UNWRITTEN, written.err)
    if string.sub(written.err, 1, 8) == 'READONLY' then
      readonly = written
    end
  end
end

-- Writes the value of a key that has been marked.
local function save(key, value, ttl)
  if how[key] == 1 then
    check(key, write('SET', names[key], value, 'KEEPTTL'))
  elseif how[key] == 2 then
    check(key, write('SET', names[key], value, 'PX', ttl))
  else
    -- MGET cannot tell a missing key from one of another type: that one must not be overwritten.
    check(key, write('SET', names[key], value, 'PX', ttl, 'NX'))
  end
end
