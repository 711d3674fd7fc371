-- Creates the context that all functions of `decide` share. This comment describes the request and
-- the reply.
--
-- KEYS     the keys of all groups, group by group
-- request  groups of calls, each group of one limiter
-- is_peek  whether the script must write nothing
--
-- A group begins with its form (one byte). `node scripts/protocol.mjs` generates the numbers of
-- forms, algorithms, operations and outcomes; script.rs replaces their names in all Lua files.
--
-- FORM_GENERAL                   any calls (see executor/general.lua)
-- FORM_WITH_HOLDS                any calls, some of them about holds
-- FORM_PERMITS                   calls of acquire, release and renew on one key of one policy, in the
--                                layout of the general path
-- FORM_SINGLE_POLICY + algorithm one take on each key of one policy
-- FORM_WINDOW_OPTIMISTIC         the same for fixed windows: one unit, incremented before the window
--                                is read
-- FORM_MULTI_POLICY              one take on each key of several policies (see multi_policy.lua)
-- FORM_MULTI_POLICY_OPTIMISTIC   the same, with optimistic fixed windows
-- FORM_MULTI_POLICY_METERED      the same, with costs by policy
--
-- FORM_BAN                       the rule for bans of the group that follows: the number of its bytes
--                                (one byte), the policies to which it applies (one byte; bits), and
--                                doubles: the policy whose key gets all strikes or 0, the strikes for a
--                                ban, the length of their window, the time after which a ban no longer
--                                counts, the lengths of bans
--
-- Group forms other than the first three continue with the number of keys (two bytes) and the policy's
-- numbers. Each call takes one unit. If FORM_WITH_COSTS is added, calls have costs, and one double
-- for each call precedes the policy's numbers.
--
-- The reply is a list:
--
-- 1     the time
-- 2     the states after the calls: doubles, for each outcome in turn
-- 3     the outcome codes, one byte for each outcome; empty if all are ADMITTED and no operation
--       has a result
-- 4     further doubles, call by call: the result of the operation, then for each outcome: the
--       override and its end, if the code has OVERRIDDEN; the numbers of the state, if the code has
--       OTHER_NUMBERS; the end of the block and the number of the ban's length or 0, if the
--       code has BLOCKED; the owed units, the time of the latest payment, the units that an idle
--       period pays and its length, if the code has OWED; the mark, if the code has MARKED
-- 5...  one error text for each UNWRITTEN outcome
--
-- A call has one outcome for each of its policies. The result of SCHEDULE is 1 plus the microseconds
-- until the slot, or 0 if nothing was scheduled. If a slot was, the states before the charge follow:
-- seven doubles for each policy (see rate/general.lua).
local context = {
  now = now,
  request = request,
  is_peek = is_peek,
  -- The position of the group's rule for bans in the request, after its size; `false` if there is
  -- none.
  ban = false,
  -- The number of outcomes so far.
  outcome_count = 0,
  -- The states after the calls, encoded.
  states = {},
  -- Creates the general path, once (see executor/general.lua).
  load_general_path = load_general_path,
}
