-- Decides the request group by group, with a fast path or the general path, and returns the reply.
-- batch.lua describes the request and the reply.

local at, key_offset = 1, 0
while at <= #context.request do
  -- A fast-path form is followed by the number of keys and, if the form says so, by the costs.
  local form, high, low = string.byte(context.request, at, at + 2)
  local group, costs
  if form == FORM_GENERAL or form == FORM_WITH_HOLDS then
    local has_holds = form == FORM_WITH_HOLDS
    at, key_offset = load_general_path(context).decide_group(context, at + 1, key_offset, has_holds)
  else
    local first, count = key_offset + 1, high * 256 + low
    at, key_offset = at + 3, key_offset + count
    if form > FORM_WITH_COSTS then
      form, costs = form - FORM_WITH_COSTS, { struct.unpack('>' .. string.rep('d', count), context.request, at) }
      at = at + 8 * count
    end
    local algorithm = form - FORM_SINGLE_POLICY
    if form == FORM_MULTI_POLICY or form == FORM_MULTI_POLICY_OPTIMISTIC then
      -- By the number of the algorithm.
      local fast_paths = { rate_fast_path, window_fast_path, counter_fast_path, interval_fast_path }
      local is_optimistic = form == FORM_MULTI_POLICY_OPTIMISTIC
      at, key_offset, group = multi_policy(
        context, at, first - 1, count, costs, is_optimistic, fast_paths, window_optimistic
      )
    elseif algorithm == ALGORITHM_RATE then
      at, group = single_policy(context, algorithm, rate_fast_path(), at, first, key_offset, costs)
    elseif algorithm == ALGORITHM_FIXED_WINDOW then
      local _, fixed_window_take = window_fast_path()
      at, group = fixed_window_take(context, at, first, key_offset, costs)
    elseif algorithm == ALGORITHM_SLIDING_COUNTER then
      at, group = single_policy(context, algorithm, counter_fast_path(), at, first, key_offset, costs)
    elseif algorithm == ALGORITHM_TOKEN_BUCKET_INTERVAL then
      at, group = single_policy(context, algorithm, interval_fast_path(), at, first, key_offset, costs)
    elseif algorithm == ALGORITHM_SLIDING_WINDOW_LIST then
      at, group = list_fast_path()(context, at, first, key_offset, costs)
    else
      at, group = window_optimistic()(context, at, first, key_offset)
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
