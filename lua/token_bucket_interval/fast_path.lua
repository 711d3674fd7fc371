-- Fast path for token buckets that are refilled at intervals. general.lua describes the value and
-- the policy.

-- Decides as the twin does, without its tables, for keys with a value of this policy that are not
-- full and have room for the cost. Such a call changes only the anchor and the used units.
local function token_bucket_interval_next_states(context, at, values, count, costs)
  local pack, unpack_struct, find = struct.pack, struct.unpack, string.find
  local now, states = context.now, {}
  local every, tokens, max_used, capacity, initial, ttl_step, after = unpack_struct('>dddddd', context.request, at)
  local numbers = string.sub(context.request, at, at + 23)
  local value_size = initial < capacity and 41 or 40
  for index = 1, count do
    local value = values[index]
    if value and #value == value_size and find(value, numbers, 17, true) == 17 then
      local old_anchor, old_used = unpack_struct('>dd', value)
      if
        old_anchor >= 0 and old_anchor <= now and old_anchor % 1 == 0
        and old_used > 0 and old_used <= max_used and old_used % 1 == 0
      then
        local anchor, used = old_anchor, old_used
        if now - anchor >= every then
          anchor, used = refill(now, anchor, used, every, tokens)
        end
        local with_cost = used + (costs and costs[index] or 1)
        if used > 0 and with_cost <= capacity then
          local old = old_anchor + refills_for(old_used, tokens) * every
          local new = anchor + refills_for(with_cost, tokens) * every
          if new - new % ttl_step == old - old % ttl_step then
            states[index] = pack('>dd', anchor, with_cost)
          end
        end
      end
    end
  end
  return after, states, value_size
end

return token_bucket_interval_next_states
