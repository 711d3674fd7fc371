-- Outcome codes and the results of calls. They are added to the context when the general path is
-- created.
if context.general_path then
  return context.general_path
end

-- By the number of the outcome, unless it is ADMITTED: its code, its further doubles, its error.
context.outcome_codes, context.details, context.errors = {}, {}, {}
-- By the number of a call's first outcome: the encoded result of its operation.
context.operation_results = {}
-- By key: its metadata (see key_metadata.lua).
context.key_metadata = {}

context.ADMITTED = 0
context.REFUSED = 1
context.IMPOSSIBLE = 2
context.UNREADABLE = 3 -- the key has a value that no limiter wrote
context.UNWRITTEN = 4 -- Redis refused to write the key; the reply has its error
context.STALE = 5 -- the request is for another time; the client resends it for the server's time
context.OTHER_NUMBERS = 8 -- added if the numbers of the state differ from the policy's
context.OVERRIDDEN = 16 -- added if an override decided the call
context.BLOCKED = 32 -- added while the key is blocked

-- Fails an outcome with Redis's reply to a write.
local function fail(context, outcome, reply)
  local text = type(reply) == 'table' and reply.err
  context.details[outcome] = nil
  if not text then
    context.outcome_codes[outcome] = context.UNREADABLE
    return
  end
  -- Redis 6.2 adds the script's line and a newline: '@user_script: 9: -OOM ...'.
  text = string.match(text, '^@user_script: %d+: %-?(.-)%s*$') or text
  context.outcome_codes[outcome], context.errors[outcome] = context.UNWRITTEN, text
  if string.sub(text, 1, 8) == 'READONLY' then
    -- A replica writes nothing. So the whole script had no effect, and can be sent again to a
    -- master.
    reply.err = text
    context.readonly_error = reply
  end
end
