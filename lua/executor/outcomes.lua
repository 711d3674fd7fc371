-- What becomes of calls, beside that they are admitted. It is part of the round once the general way has been made.
if context.general_path then
  return context.general_path
end

-- By number, those that are not ADMITTED; and what belongs to them.
context.outcome_codes, context.details, context.errors = {}, {}, {}
-- By a call's first outcome: the units of an operation.
context.operation_results = {}
-- By key: what it has beside its state (extras.lua).
context.key_metadata = {}

context.ADMITTED = 0
context.REFUSED = 1
context.IMPOSSIBLE = 2
context.UNREADABLE = 3 -- the key holds something that no limiter wrote
context.UNWRITTEN = 4 -- Redis refused to write the key, and says why
context.STALE = 5 -- what the script was told of the time is about another time: to be asked again, with the server's
context.OTHER_NUMBERS = 8 -- added to an outcome whose state is in other numbers than the policy's
context.OVERRIDDEN = 16 -- added to an outcome by numbers of the key's own
context.BLOCKED = 32 -- added to an outcome while the key is blocked

-- Notes as an outcome why a key was not written.
local function fail(context, outcome, reply)
  local text = type(reply) == 'table' and reply.err
  context.details[outcome] = nil
  if not text then
    context.outcome_codes[outcome] = context.UNREADABLE
    return
  end
  -- Redis 6.2 tells the line of the script, too: '@user_script: 9: -OOM ...' and a line's end.
  text = string.match(text, '^@user_script: %d+: %-?(.-)%s*$') or text
  context.outcome_codes[outcome], context.errors[outcome] = context.UNWRITTEN, text
  if string.sub(text, 1, 8) == 'READONLY' then
    -- A replica writes nothing: then the whole script has not run, and may be sent again to a master.
    reply.err = text
    context.readonly_error = reply
  end
end
