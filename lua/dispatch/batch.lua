-- What is asked and answered.
--
-- ARGV[1]  what is asked, in groups of calls of one limiter; a group's keys follow on those of the group before.
--          It begins with a form (one byte).
--          0: any calls, as decide.lua reads them; 9: also such as are about holds.
--          Any other form is one call on each key: the number of keys (two bytes); if 32 is added to the form, the cost
--          of each call, which is one unit otherwise; and the policy's numbers.
--          7, 10: on each key of several policies; these stand there as quick/several.lua reads them.
-- ARGV[2]  'peek': nothing is written.
--
-- Answers with the time; the states that the calls left under each policy, in doubles; what became of the calls
-- under each policy, one byte each, or nothing if all are ADMITTED; further doubles, call by call: the units of an
-- operation, and what belongs to an outcome (OVERRIDDEN: the numbers of its own, and their end; OTHER: the state's
-- numbers; BLOCKED: the block's end); and at the end a text for each that is UNWRITTEN.
-- Of a booking the units are the microseconds until its slot, and 1 more, or 0 if nothing was booked; and
-- if something was, the states of the keys follow as they were before, by policy seven doubles (rate.lua).
--
-- Whatever a script defines is made anew whenever it runs, and what a function makes use of from outside costs time then,
-- too. So the ways to decide are functions that make theirs when they are called, and that are given the round.
local context = {
  now = now,
  request = ARGV[1],
  is_peek = ARGV[2] == 'peek',
  -- The number of outcomes so far.
  outcome_count = 0,
  -- What is told of states.
  states = {},
  -- Answers with what the quick ways leave aside (general.lua), and is given the round.
  load_general_path = load_general_path,
}
