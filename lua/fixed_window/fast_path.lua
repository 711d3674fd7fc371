-- Fast paths for fixed windows that are read before they are charged. general.lua describes the
-- value and the policy.

-- The value after a charge of a window that is not packed; nil if the window is closed or lacks
-- room.
local function charge_unpacked(now, value, cost, limit, new_end, latest_end)
  if not value or #value ~= 16 or not new_end then
    return
  end
  local window_end, count = struct.unpack('>dd', value)
  local used = count + cost
  if
    window_end * 1000 > now and window_end <= latest_end and window_end % 1 == 0
    and used > cost and used <= limit and count % 1 == 0
  then
    return struct.pack('>dd', window_end, used)
  end
end

-- For multi_policy.lua: the packed windows after the calls as numbers, and the other windows as
-- values; nil if the general path must decide.
local function fixed_window_next_states(context, at, values, count, costs)
  local now, request, tonumber, windows = context.now, context.request, tonumber, {}
  --@include fixed_window/policy.lua
  --@include fixed_window/bounds.lua
  for index = 1, count do
    local window, cost = tonumber(values[index]), costs and costs[index] or 1
    --@include fixed_window/take.lua
    if charged then
      windows[index] = window + cost
    elseif not window then
      windows[index] = charge_unpacked(now, values[index], cost, limit, new_end, latest_end)
    end
  end
  return after, windows, 16
end

-- One take on each key of one policy. Decides as the twin does, without its function calls and
-- tables, for keys whose window is open and has room. The general path decides the others.
local function fixed_window_take(context, at, first, last, costs)
  local now, request, names, call, tonumber = context.now, context.request, KEYS, redis.pcall, tonumber
  --@include fixed_window/policy.lua
  --@include fixed_window/bounds.lua
  local values = redis.call('MGET', unpack(names, first, last))
  -- The windows that are not in the reply yet.
  local windows, count, group = {}, 0
  for key = first, last + 1 do
    local window, cost = tonumber(values[key - first + 1]), costs and costs[key - first + 1] or 1
    --@include fixed_window/take.lua
    if charged then
      window = window + cost
      count = count + 1
      windows[count] = -window
      local reply = costs and call('INCRBY', names[key], tostring(cost)) or call('INCR', names[key])
      if reply ~= window then
        context.load_general_path(context).fail(context, context.outcome_count + count, reply)
      end
    else
      if count > 0 then
        context.outcome_count = context.outcome_count + count
        -- Each packed window is one negative double.
        context.states[#context.states + 1] = struct.pack('>' .. string.rep('d', count), unpack(windows, 1, count))
        count = 0
      end
      local value = values[key - first + 1]
      local unpacked = key <= last and not window and charge_unpacked(now, value, cost, limit, new_end, latest_end)
      if unpacked then
        context.outcome_count = context.outcome_count + 1
        context.states[#context.states + 1] = unpacked
        local reply = call('SETRANGE', names[key], '0', unpacked)
        if reply ~= 16 then
          context.load_general_path(context).fail(context, context.outcome_count, reply)
        end
      elseif key <= last then
        group = context.load_general_path(context).fall_back(context, group, 2, at, key, value, cost)
      end
    end
  end
  return after, group
end

return fixed_window_next_states, fixed_window_take
