-- Fast path for token buckets that are refilled at intervals. general.lua describes the value and
-- the policy.

--@include token_bucket_interval/shared.lua

-- Decides as the twin does, without its tables, for keys with a value of this policy that are not
-- full and have room for the cost.
return function(context, at, values, count, costs)
  local struct, string, now, request, states = struct, string, context.now, context.request, {}
  --@include token_bucket_interval/policy.lua
  for index = 1, count do
    local value, cost = values[index], costs and costs[index] or 1
    --@include token_bucket_interval/take.lua
    states[index] = state
  end
  return after, states, value_size
end
