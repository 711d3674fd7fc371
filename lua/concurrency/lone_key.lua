-- Decides calls of acquire, release and renew on one key, if all of them are simple: no block, no
-- override, nothing expired, no step of the clock. Sets `reply`; otherwise it writes nothing, and
-- the general path decides. The request has the layout of the general path (executor/general.lua).
local pack, unpack_struct, sub, min, max, HUGE = struct.pack, struct.unpack, string.sub, math.min, math.max, math.huge
local call_count, _, _, _, _, _, limit, length, position = unpack_struct('>I2I1I1I1I1I2dd', request, at - 2)
local value = redis.pcall('GET', name)
local permits, tickets, used, count, is_simple, is_changed = '', '', 0, 0, not value, false
if type(value) == 'string' and #value > 24 and sub(value, -1) == 'P' then
  local changed_at, ticket_count
  changed_at, used, count, ticket_count = unpack_struct('>ddI4I4', value)
  -- All tickets are read for each call.
  is_simple = ticket_count <= 32 and #value == 25 + (count + ticket_count) * 32
    and changed_at >= 0 and changed_at <= now and changed_at % 1 == 0
    and used >= 0 and used < 9007199254740992 and used % 1 == 0
    and (count == 0 or unpack_struct('>d', value, 25) > now)
  permits, tickets = sub(value, 25, 24 + count * 32), sub(value, 25 + count * 32, -2)
  for ticket = 25, #tickets, 32 do
    is_simple = is_simple and unpack_struct('>d', tickets, ticket) > now
  end
end
local states, codes, results = {}, {}, {}
for call = 1, is_simple and call_count or 0 do
  local operation = string.byte(request, position)
  local outcome, result, retry_at, cost, id, waited = OUTCOME_ADMITTED, 0, 0
  if operation == OPERATION_ACQUIRE then
    local hold_number
    cost, id, waited, hold_number, position = unpack_struct('>dddI2', request, position + 3)
    -- The general path knows holds.
    if hold_number > 0 then
      break
    end
  else
    id, position = unpack_struct('>d', request, position + 3)
  end
  -- The call's own ticket, the units of the tickets before its turn, and the place of its turn.
  local own, own_since, own_units, own_end
  local since, before, place = waited and max(0, now - waited), 0, #tickets + 1
  for ticket = 1, #tickets, 32 do
    if unpack_struct('>d', tickets, ticket + 8) == id then
      own, own_since = ticket, (unpack_struct('>d', tickets, ticket))
      own_units, own_end = unpack_struct('>dd', tickets, ticket + 16)
      since = since and min(since, own_since)
    end
  end
  for ticket = 1, #tickets, 32 do
    local other_since, other_id, units = unpack_struct('>ddd', tickets, ticket)
    if waited and waited >= 0 and not (other_since < since or other_since == since and other_id < id) then
      place = ticket
      break
    end
    before = before + units
  end
  local added, added_length
  if operation == OPERATION_ACQUIRE then
    if cost < 1 or cost > limit or (own and waited < 0) then
      break
    end
    if used + before + cost <= limit and count < 10000 then
      result, added, added_length = cost, cost, length
      if own then
        tickets = sub(tickets, 1, own - 1) .. sub(tickets, own + 32)
      end
    else
      outcome = OUTCOME_REFUSED
    end
  else
    if own and operation == OPERATION_RELEASE then
      tickets, is_changed = sub(tickets, 1, own - 1) .. sub(tickets, own + 32), true
    end
    local text, first = pack('>d', id), 1
    repeat
      first = string.find(permits, text, first, true)
      if first and first % 32 == 9 then
        local units, own_length = unpack_struct('>dd', permits, first + 8)
        permits = sub(permits, 1, first - 9) .. sub(permits, first + 24)
        used, count, result, is_changed = used - units, count - 1, 1, true
        if operation == OPERATION_RENEW_PERMIT then
          added, added_length = units, own_length
        end
        break
      end
      first = first and first + 1
    until not first
  end
  local last_end = count > 0 and unpack_struct('>d', permits, #permits - 31) or 0
  if added then
    local expires_at = min(now + added_length, 9007199254740991)
    if expires_at < last_end then
      break
    end
    permits, last_end = permits .. pack('>dddd', expires_at, id, added, added_length), expires_at
    used, count, is_changed = used + added, count + 1, true
  end
  -- The tickets of other calls: the own one is dropped when the call stops waiting.
  local ticket_units, ticket_end = 0, 0
  for ticket = 9, #tickets, 32 do
    local other_id, units, expires_at = unpack_struct('>ddd', tickets, ticket)
    if operation ~= OPERATION_ACQUIRE or other_id ~= id then
      ticket_units, ticket_end = ticket_units + units, max(ticket_end, expires_at)
    end
  end
  if outcome == OUTCOME_REFUSED then
    -- The time from which the cost fits if nothing is renewed; the tickets expire earlier.
    local still_used, still_held, permit = used, count, 1
    while permit < #permits and (still_used + cost > limit or still_held >= 10000) do
      local expires_at, _, units = unpack_struct('>ddd', permits, permit)
      retry_at, still_used, still_held, permit = expires_at, still_used - units, still_held - 1, permit + 32
    end
    -- A call that does not wait may be a strike. Above 1,000 tickets a call gets none.
    if
      retry_at < ticket_end or retry_at == 0 or #tickets >= 32000
      or (waited < 0 and string.byte(request) == FORM_BAN)
    then
      break
    end
  end
  local remaining, next_at = count < 10000 and max(0, limit - used - ticket_units) or 0, 0
  if remaining == 0 then
    -- The time from which a unit is free if nothing is renewed: permits and tickets by their ends.
    local still_used, still_held, permit, ticket_free_at = used + ticket_units, count, 1, 0
    while (still_used >= limit or still_held >= 10000) and still_used > 0 do
      local end_of_permit, _, permit_units = HUGE
      if permit < #permits then
        end_of_permit, _, permit_units = unpack_struct('>ddd', permits, permit)
      end
      local end_of_ticket, units_of_tickets = HUGE, 0
      for ticket = 9, #tickets, 32 do
        local other_id, units, expires_at = unpack_struct('>ddd', tickets, ticket)
        if (operation ~= OPERATION_ACQUIRE or other_id ~= id) and expires_at > ticket_free_at then
          if expires_at < end_of_ticket then
            end_of_ticket, units_of_tickets = expires_at, units
          elseif expires_at == end_of_ticket then
            units_of_tickets = units_of_tickets + units
          end
        end
      end
      if end_of_ticket <= end_of_permit then
        if end_of_ticket == HUGE then
          break
        end
        next_at, ticket_free_at, still_used = end_of_ticket, end_of_ticket, still_used - units_of_tickets
      else
        next_at, still_used, still_held, permit = end_of_permit, still_used - permit_units, still_held - 1, permit + 32
      end
    end
  end
  states[call] = pack('>ddddd', limit, remaining, retry_at, next_at, max(last_end, ticket_end))
  codes[call], results[call] = string.char(outcome), pack('>d', result)
  if
    outcome == OUTCOME_REFUSED and waited >= 0
    and not (own and own_units == cost and own_since == since and own_end - now > 500000)
  then
    own = own or #tickets + 1
    tickets = sub(tickets, 1, place - 1) .. pack('>dddd', since, id, cost, now + 1000000)
      .. sub(tickets, place, own - 1) .. sub(tickets, own + 32)
    is_changed = true
  end
end
if #codes == call_count and position > #request then
  local last = count > 0 and unpack_struct('>d', permits, #permits - 31) or 0
  for ticket = 25, #tickets, 32 do
    last = max(last, (unpack_struct('>d', tickets, ticket)))
  end
  local written = true
  if is_changed and last > 0 then
    local text = pack('>ddI4I4', now, used, count, #tickets / 32) .. permits .. tickets .. 'P'
    -- One more millisecond, because Redis's clock for expiry may be behind the script's.
    local ttl = string.format('%.0f', math.ceil((last - now) / 1000) + 1)
    -- NX for a new key: the general path reports a key of another type.
    written = value and redis.pcall('SET', name, text, 'PX', ttl) or redis.pcall('SET', name, text, 'PX', ttl, 'NX')
    written = written and not written.err
  elseif is_changed and value then
    written = redis.pcall('UNLINK', name) == 1
  end
  if written then
    reply = { now, table.concat(states), table.concat(codes), table.concat(results) }
  end
end
