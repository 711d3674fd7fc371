-- What is asked and answered, and what the algorithms' files share.
--
-- ARGV[1]  what is asked, in groups of calls of one limiter; a group's keys follow on those of the group before.
--          It begins with a form (one byte).
--          0: any calls, as decide.lua reads them; 9: also such as are about holds.
--          7, 10: one unit on each key of several policies, as quick/several.lua reads it.
--          Any other form is one policy with one call of one unit on each key: the number of keys (two
--          bytes), and the policy's numbers.
-- ARGV[2]  'peek': nothing is written.
--
-- Answers with the time; the states that the calls left under each policy, in doubles; what became of the calls
-- under each policy, one byte each, or nothing if all are ADMITTED; further doubles, call by call: the units of an
-- operation, and what belongs to an outcome (OVERRIDDEN: the numbers of its own; OTHER: the state's numbers; BLOCKED:
-- the block's end); and at the end a text for each that is UNWRITTEN.
-- Of a booking the units are the microseconds until its slot, and 1 more, or 0 if nothing was booked; and
-- if something was, the states of the keys follow as they were before, by policy seven doubles (rate.lua).
--
-- A script's functions are made anew whenever it runs, and each local of the script that a function makes use of
-- costs time then. So the functions here make use of none or few: they are given the round.
local round = {
  now = now,
  request = ARGV[1],
  peeks = ARGV[2] == 'peek',
  -- The number of outcomes so far, and those that are not ADMITTED; what belongs to them.
  count = 0,
  outcomes = {},
  more = {},
  texts = {},
  -- By a call's first outcome: the units of an operation.
  units = {},
  -- By key: what it has beside its state (extras.lua).
  extras = {},
  -- What is told of states.
  states = {},
  ADMITTED = 0,
  REFUSED = 1,
  IMPOSSIBLE = 2,
  UNREADABLE = 3, -- the key holds something that no limiter wrote
  UNWRITTEN = 4, -- Redis refused to write the key, and says why
  STALE = 5, -- what the script was told of the time is about another time: to be asked again, with the server's
  OTHER = 8, -- added to an outcome whose state is in other numbers than the policy's
  OVERRIDDEN = 16, -- added to an outcome by numbers of the key's own
  BLOCKED = 32, -- added to an outcome while the key is blocked
}

-- Notes as an outcome why a key was not written.
local function fail(round, outcome, written)
  local text = type(written) == 'table' and written.err
  round.more[outcome] = nil
  if not text then
    round.outcomes[outcome] = round.UNREADABLE
    return
  end
  -- Redis 6.2 tells the line of the script, too: '@user_script: 9: -OOM ...' and a line's end.
  text = string.match(text, '^@user_script: %d+: %-?(.-)%s*$') or text
  round.outcomes[outcome], round.texts[outcome] = round.UNWRITTEN, text
  if string.sub(text, 1, 8) == 'READONLY' then
    -- A replica writes nothing: then the whole script has not run, and may be sent again to a master.
    written.err = text
    round.readonly = written
  end
end

-- Answers with what the quick ways leave aside (general.lua).
local general

-- Leaves a key of a quick group to the general way; answers with the general way's group.
local function leave(round, group, algorithm, at, key, value)
  group = group or general().open_group(round, general().algorithms[algorithm], at)
  general().take_one(round, group, key, value)
  return group
end
