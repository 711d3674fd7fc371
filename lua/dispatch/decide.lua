-- Decides the request group by group, with a fast path or the general path, and returns the reply.
-- batch.lua describes the request and the reply.

local at, key_offset = 1, 0
while at <= #context.request do
  -- A fast-path form is followed by the number of keys and, if the form says so, by the costs.
  local form, high, low = string.byte(context.request, at, at + 2)
  local group, costs
  context.ban = false
  if form == FORM_BAN then
    context.ban, at = at + 2, at + 2 + high
    form, high, low = string.byte(context.request, at, at + 2)
  end
  if form == FORM_GENERAL or form == FORM_WITH_HOLDS or form == FORM_PERMITS then
    local has_holds = form == FORM_WITH_HOLDS
    at, key_offset = load_general_path(context).decide_group(context, at + 1, key_offset, has_holds)
  else
    local first, count = key_offset + 1, high * 256 + low
    at, key_offset = at + 3, key_offset + count
    if form > FORM_WITH_COSTS then
      form, costs = form - FORM_WITH_COSTS, { struct.unpack('>' .. string.rep('d', count), context.request, at) }
      at = at + 8 * count
    end
    if form == FORM_MULTI_POLICY or form == FORM_MULTI_POLICY_OPTIMISTIC or form == FORM_MULTI_POLICY_METERED then
      at, key_offset, group = multi_policy(context, at, first - 1, count, costs, form, window_optimistic)
    elseif form == FORM_WINDOW_OPTIMISTIC then
      at, group = window_optimistic()(context, at, first, key_offset)
    else
      local algorithm = form - FORM_SINGLE_POLICY
      local next_states_of, take = fast_paths[algorithm]()
      if take then
        at, group = take(context, at, first, key_offset, costs)
      else
        at, group = single_policy(context, algorithm, next_states_of, at, first, key_offset, costs)
      end
    end
  end
  if group then
    load_general_path(context).write_group(context, group)
  end
end

if context.readonly_error then
  return context.readonly_error
end
local reply = { context.now, table.concat(context.states), '', '' }
if context.general_path and (next(context.outcome_codes) or next(context.operation_results)) then
  local codes, details = {}, {}
  for number = 1, context.outcome_count do
    local outcome = context.outcome_codes[number] or OUTCOME_ADMITTED
    codes[number] = string.char(outcome)
    details[#details + 1] = context.operation_results[number]
    details[#details + 1] = context.details[number]
    if outcome == OUTCOME_UNWRITTEN then
      reply[#reply + 1] = context.errors[number]
    end
  end
  reply[3], reply[4] = table.concat(codes), table.concat(details)
end
return reply
