-- Fast path for rates. general.lua describes the value and the policy.

-- Decides as the twin does, without its function calls and tables, for keys with a value of this
-- policy and room for the cost.
return function(context, at, values, count, costs)
  local struct, now, request, states = struct, context.now, context.request, {}
  --@include rate/policy.lua
  for index = 1, count do
    local value, cost = values[index], costs and costs[index] or 1
    --@include rate/take.lua
    states[index] = state
  end
  return after, states, value_size
end
