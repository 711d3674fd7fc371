-- Fast path for sliding counters. general.lua describes the value and the policy.

-- Decides as the twin does, without its function calls and tables, for keys whose value is of the
-- open window and has room for the cost.
local function sliding_counter_next_states(context, at, values, count, costs)
  local pack, unpack_struct, states = struct.pack, struct.unpack, {}
  local now_ms = (context.now - context.now % 1000) / 1000
  local limit, window, after = unpack_struct('>dd', context.request, at)
  local open_end = end_of_window(now_ms, window)
  local overlap = open_end - now_ms
  for index = 1, count do
    local value = values[index]
    if value and #value == 32 then
      local window_end, current, previous, length = unpack_struct('>dddd', value)
      if
        window_end == open_end and length == window
        and current >= 0 and current % 1 == 0 and previous >= 0 and previous % 1 == 0
      then
        local with_cost = current + (costs and costs[index] or 1)
        local used = with_cost
        if previous > 0 then
          local product = previous * overlap
          local rest = product % window
          used = used + (product - rest) / window
          if rest > 0 then
            used = used + 1
          end
        end
        -- If the call fits, the product was exact.
        if used <= limit then
          states[index] = pack('>ddd', window_end, with_cost, previous)
        end
      end
    end
  end
  return after, states, 32
end

return sliding_counter_next_states
