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
-- By key: whether parts of its metadata had ended when it was loaded.
context.has_ended = {}

-- Fails an outcome with Redis's reply to a write.
local function fail(context, outcome, reply)
  local text = type(reply) == 'table' and reply.err
  context.details[outcome] = nil
  if not text then
    context.outcome_codes[outcome] = OUTCOME_UNREADABLE
    return
  end
  -- Redis 6.2 adds the script's line and a newline: '@user_script: 9: -OOM ...'.
  text = string.match(text, '^@user_script: %d+: %-?(.-)%s*$') or text
  context.outcome_codes[outcome], context.errors[outcome] = OUTCOME_UNWRITTEN, text
  if string.sub(text, 1, 8) == 'READONLY' then
    -- A replica writes nothing. So the whole script had no effect, and can be sent again to a
    -- master.
    reply.err = text
    context.readonly_error = reply
  end
end
