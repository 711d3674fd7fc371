-- Fast path for sliding windows in lists. list.lua describes the value, general.lua the policy.

--@include sliding_window/shared.lua

-- One take on each key. Decides as the twin does if there is room for the cost and the call only
-- changes or adds the newest element. Reads one old element. If the call opens a bucket, it reads
-- four, because old elements have usually expired then.
local function sliding_window_list_take(context, at, first, last, costs)
  local ELEMENT, DROP_EVERY, LIMIT = '>ddddI2', 32, 9007199254740992
  local call, pack, unpack_struct, retain_until = redis.pcall, struct.pack, struct.unpack, retain_until
  local limit, width, span, after_policy = unpack_struct('>ddd', context.request, at)
  local current_end, horizon, max_end = bucket_of(context.now, width, span)

  -- Positions as text, made once: Redis would print a number argument with 17 digits.
  local position_texts = {}
  local function text_of(position)
    local text = position_texts[position] or tostring(position)
    position_texts[position] = text
    return text
  end

  -- The state after the call; nil if the general path must decide.
  local function take_from(name, cost)
    local value = call('LINDEX', name, '-1')
    if not value or #value ~= VALUE_ELEMENT_SIZE then
      return
    end
    local newest_end, before, after, reset_at, expired = unpack_struct(ELEMENT, value)
    local new_end = current_end > newest_end and current_end or newest_end
    local new_reset_at = new_end + span
    if
      context.now >= reset_at or newest_end <= horizon or newest_end > max_end
      or reset_at - newest_end ~= span or newest_end % width ~= 0 or after + cost >= LIMIT
      or retain_until(new_end, new_reset_at) ~= retain_until(newest_end, reset_at)
    then
      return
    end
    local position, oldest_end, oldest_before, oldest_after = expired
    if new_end == newest_end then
      value = call('LINDEX', name, text_of(expired))
      if not value or #value ~= VALUE_ELEMENT_SIZE then
        return
      end
      oldest_end, oldest_before, oldest_after = unpack_struct('>ddd', value)
    else
      local oldest = call('LRANGE', name, text_of(expired), text_of(expired + 3))
      for index = 1, #oldest do
        if #oldest[index] ~= VALUE_ELEMENT_SIZE then
          return
        end
        oldest_end, oldest_before, oldest_after = unpack_struct('>ddd', oldest[index])
        position = expired + index - 1
        if oldest_end > horizon then
          break
        end
      end
    end
    local units = after - (oldest_before or 0) + cost
    if
      not oldest_end or oldest_end <= horizon
      or units > limit or units < cost or units % 1 ~= 0 or position >= DROP_EVERY
      -- The oldest units may have been refunded.
      or (units == limit and oldest_after == oldest_before and oldest_end < new_end)
    then
      return
    end
    local reply
    if new_end == newest_end then
      reply = call('LSET', name, '-1', pack(ELEMENT, new_end, before, after + cost, new_reset_at, position))
    else
      reply = call('RPUSH', name, pack(ELEMENT, new_end, after, after + cost, new_reset_at, position))
    end
    if type(reply) == 'table' and reply.err then
      return
    end
    local next_at = units == limit and oldest_end + span or 0
    return pack('>ddddd', limit, limit - units, 0, next_at, new_reset_at)
  end

  local states, group = context.states
  for key = first, last do
    local cost = costs and costs[key - first + 1] or 1
    local state = take_from(KEYS[key], cost)
    if state then
      context.outcome_count = context.outcome_count + 1
      states[#states + 1] = state
    else
      group = context.load_general_path(context).fall_back(context, group, 5, at, key, nil, cost)
    end
  end
  return after_policy, group
end

return nil, sliding_window_list_take
