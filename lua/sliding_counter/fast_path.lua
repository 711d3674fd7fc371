-- Fast path for sliding counters. general.lua describes the value and the policy.

-- Decides as the twin does, without its function calls and tables, for keys whose value is of the
-- open window and has room for the cost.
return function(context, at, values, count, costs)
  local struct, now, request, states = struct, context.now, context.request, {}
  --@include sliding_counter/policy.lua
  for index = 1, count do
    local value, cost = values[index], costs and costs[index] or 1
    --@include sliding_counter/take.lua
    states[index] = state
  end
  return after, states, 32
end
