-- What becomes of calls, beside that they are admitted. It is part of the round once the general way has been made.
if round.made then
  return round.made
end

-- By number, those that are not ADMITTED; and what belongs to them.
round.outcomes, round.more, round.texts = {}, {}, {}
-- By a call's first outcome: the units of an operation.
round.units = {}
-- By key: what it has beside its state (extras.lua).
round.extras = {}

round.ADMITTED = 0
round.REFUSED = 1
round.IMPOSSIBLE = 2
round.UNREADABLE = 3 -- the key holds something that no limiter wrote
round.UNWRITTEN = 4 -- Redis refused to write the key, and says why
round.STALE = 5 -- what the script was told of the time is about another time: to be asked again, with the server's
round.OTHER = 8 -- added to an outcome whose state is in other numbers than the policy's
round.OVERRIDDEN = 16 -- added to an outcome by numbers of the key's own
round.BLOCKED = 32 -- added to an outcome while the key is blocked

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
