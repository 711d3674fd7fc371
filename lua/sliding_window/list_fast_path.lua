-- The quick way of sliding windows in lists: see sliding_window_list.lua.

-- One call on each key: what the twin's functions do, where there is room for its cost and nothing changes but what this
-- writes, with one look at the oldest entry, or at four where a bucket opens, since some have then mostly expired.
local function sliding_window_list_quick(round, at, first, last, costs)
  local ELEMENT, SIZE, DROP_EVERY, LIMIT = '>ddddI2', 34, 32, 9007199254740992
  local call, pack, unpack_struct, kept_until = redis.pcall, struct.pack, struct.unpack, kept_until
  local limit, width, span, after_policy = unpack_struct('>ddd', round.request, at)
  local own_end, horizon, far = bucket_of(round.now, width, span)

  -- Places as text, made once: a number among the words of a command would be printed with 17 digits.
  local texts = {}
  local function text_of(place)
    local text = texts[place] or tostring(place)
    texts[place] = text
    return text
  end

  -- The state that the call leaves; nothing if it is not as simple as that.
  local function state_of(name, cost)
    local value = call('LINDEX', name, '-1')
    if not value or #value ~= SIZE then
      return
    end
    local newest_end, before, after, settles, lost = unpack_struct(ELEMENT, value)
    local ends = own_end > newest_end and own_end or newest_end
    local settles_now = ends + span
    if
      round.now >= settles or newest_end <= horizon or newest_end > far
      or settles - newest_end ~= span or ends % width ~= 0 or after + cost >= LIMIT
      or kept_until(ends, settles_now) ~= kept_until(newest_end, settles)
    then
      return
    end
    local place, oldest_end, oldest_before = lost
    if ends == newest_end then
      value = call('LINDEX', name, text_of(lost))
      if not value or #value ~= SIZE then
        return
      end
      oldest_end, oldest_before = unpack_struct('>dd', value)
    else
      local oldest = call('LRANGE', name, text_of(lost), text_of(lost + 3))
      for index = 1, #oldest do
        if #oldest[index] ~= SIZE then
          return
        end
        oldest_end, oldest_before = unpack_struct('>dd', oldest[index])
        place = lost + index - 1
        if oldest_end > horizon then
          break
        end
      end
    end
    local units = after - (oldest_before or 0) + cost
    if not oldest_end or oldest_end <= horizon or units > limit or units < cost or units % 1 ~= 0 or place >= DROP_EVERY then
      return
    end
    local written
    if ends == newest_end then
      written = call('LSET', name, '-1', pack(ELEMENT, ends, before, after + cost, settles_now, place))
    else
      written = call('RPUSH', name, pack(ELEMENT, ends, after, after + cost, settles_now, place))
    end
    if type(written) == 'table' and written.err then
      return
    end
    return pack('>dddd', limit, limit - units, 0, settles_now)
  end

  local states, group = round.states
  for key = first, last do
    local cost = costs and costs[key - first + 1] or 1
    local state = state_of(KEYS[key], cost)
    if state then
      round.count = round.count + 1
      states[#states + 1] = state
    else
      group = round.general(round).leave(round, group, 5, at, key, nil, cost)
    end
  end
  return after_policy, group
end

return sliding_window_list_quick
