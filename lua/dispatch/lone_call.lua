-- Decides a lone call: one take from the key `name` under one policy, if a fast path admits it. Sets
-- `decided` to the state after the call; otherwise it writes nothing. Calls for permits on one key
-- set `reply`. At low load nearly all requests are lone calls. This code creates no function and few
-- tables: most of the time of a short script is spent on creating them.
local form, size = string.byte(request, 1, 2)
local at, cost = 4, 1
if form == FORM_BAN then
  -- Only refusals are strikes.
  form, at = string.byte(request, size + 3), size + 6
end
if form > FORM_WITH_COSTS then
  form, at, cost = form - FORM_WITH_COSTS, at + 8, (struct.unpack('>d', request, at))
end
if form == FORM_SINGLE_POLICY + ALGORITHM_RATE then
  --@include rate/policy.lua
  local value = redis.pcall('GET', name)
  --@include rate/take.lua
  if state and after > #request and redis.pcall('SETRANGE', name, '0', state) == value_size then
    decided = state
  end
elseif form == FORM_SINGLE_POLICY + ALGORITHM_FIXED_WINDOW or form == FORM_WINDOW_OPTIMISTIC then
  --@include fixed_window/policy.lua
  --@include fixed_window/bounds.lua
  local window = tonumber(redis.pcall('GET', name))
  --@include fixed_window/take.lua
  if charged and after > #request then
    local reply = cost == 1 and redis.pcall('INCR', name) or redis.pcall('INCRBY', name, tostring(cost))
    if reply == window + cost then
      decided = struct.pack('>d', -reply)
    end
  end
elseif form == FORM_SINGLE_POLICY + ALGORITHM_SLIDING_COUNTER then
  --@include sliding_counter/policy.lua
  local value = redis.pcall('GET', name)
  --@include sliding_counter/take.lua
  if state and after > #request and redis.pcall('SETRANGE', name, '0', state) == 32 then
    decided = state
  end
elseif form == FORM_SINGLE_POLICY + ALGORITHM_TOKEN_BUCKET_INTERVAL then
  --@include token_bucket_interval/shared.lua
  --@include token_bucket_interval/policy.lua
  local value = redis.pcall('GET', name)
  --@include token_bucket_interval/take.lua
  if state and after > #request and redis.pcall('SETRANGE', name, '0', state) == value_size then
    decided = state
  end
elseif form == FORM_PERMITS then
  --@include concurrency/lone_key.lua
end
