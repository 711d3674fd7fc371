-- The twin of src/algorithm/concurrency/mod.rs: units that are held by permits.
--
-- A value is the time of its latest change, the units of all permits, the number of permits and the
-- number of tickets (four bytes each), the permits by their ends, the tickets by their turns, and
-- the letter P, so that it differs from key metadata. All other numbers are doubles:
--
-- permit  its end, its id, its units, its length
-- ticket  the time since which its call has waited, its id, its units, its end
--
-- A policy is the limit and the length of permits. A state in the reply is the status of the limit:
-- the limit, the remaining units, the retry time, the time at which a cost of 1 fits, the reset
-- time.
--
-- A call for a permit is in `context.permit_request`: its id, and the time for which it has waited
-- (negative if it does not wait). Its permit has the same id, or that of `permit`.
local function concurrency(context, source, at)
  local MAX_PERMITS, MAX_TICKETS, TICKET_LIFE, MAX_SAFE = 10000, 1000, 1000000, 9007199254740991
  local HEAD, SIZE, PERMIT, TICKET = 24, 32, '>dddd', '>dddd'
  local now, pack, unpack_struct, sub, min, max = context.now, struct.pack, struct.unpack, string.sub, math.min, math.max
  local limit, length, after = unpack_struct('>dd', source, at)
  -- By key: whether there is a value.
  local stored = {}
  local dirty_keys, write_modes, mark_dirty, mark_rewrite = new_dirty_keys(stored)

  -- By key: the permits as text, their units and number, the tickets, and the time of the latest
  -- change; nil if the value cannot be read.
  local records = {}

  local function has_turn_before(a, b)
    return a.since < b.since or (a.since == b.since and a.id < b.id)
  end

  -- The end, the id, the units and the length of the permit at a position.
  local function permit_at(record, position)
    return unpack_struct(PERMIT, record.permits, position)
  end

  local function change(key, record)
    record.changed_at = now
    mark_rewrite(key)
  end

  -- Repairs permits and tickets after a step back of the clock.
  local function repair(key, record)
    local permits = {}
    for position = 1, #record.permits, SIZE do
      local expires_at, id, units, own_length = permit_at(record, position)
      permits[#permits + 1] = { min(expires_at, now + own_length), id, units, own_length }
    end
    table.sort(permits, function(a, b) return a[1] < b[1] end)
    for index, permit in ipairs(permits) do
      permits[index] = pack(PERMIT, unpack(permit))
    end
    record.permits = table.concat(permits)
    for _, ticket in ipairs(record.tickets) do
      ticket.since, ticket.expires_at = min(ticket.since, now), min(ticket.expires_at, now + TICKET_LIFE)
    end
    table.sort(record.tickets, has_turn_before)
    change(key, record)
  end

  -- Drops what has expired. The key is written then, so that nothing comes back after a step back of
  -- the clock.
  local function drop_expired(key, record)
    local position, permits = 1, record.permits
    while position < #permits do
      local expires_at, _, units = unpack_struct('>ddd', permits, position)
      if expires_at > now then
        break
      end
      record.used, record.count, position = record.used - units, record.count - 1, position + SIZE
    end
    if position > 1 then
      record.permits = sub(permits, position)
      mark_dirty(key, 2)
    end
    local live = {}
    for _, ticket in ipairs(record.tickets) do
      if ticket.expires_at > now then
        live[#live + 1] = ticket
      end
    end
    if #live < #record.tickets then
      record.tickets = live
      mark_dirty(key, 2)
    end
  end

  local function read(key, value)
    if not value then
      records[key] = { permits = '', used = 0, count = 0, tickets = {}, changed_at = 0 }
      return
    end
    stored[key] = true
    if #value <= HEAD or sub(value, -1) ~= 'P' then
      return
    end
    local changed_at, used, count, ticket_count = unpack_struct('>ddI4I4', value)
    if #value ~= HEAD + (count + ticket_count) * SIZE + 1 or not is_integer(changed_at) or not is_integer(used) then
      return
    end
    local tickets, position = {}, HEAD + 1 + count * SIZE
    for index = 1, ticket_count do
      local since, id, units, expires_at = unpack_struct(TICKET, value, position + (index - 1) * SIZE)
      tickets[index] = { since = since, id = id, units = units, expires_at = expires_at }
    end
    local record = {
      permits = sub(value, HEAD + 1, position - 1), used = used, count = count, tickets = tickets,
      changed_at = changed_at,
    }
    if now < changed_at then
      repair(key, record)
    end
    drop_expired(key, record)
    records[key] = record
  end

  -- The turn of the call for a permit, and its ticket, if it has one: since the earliest time that one
  -- of its requests had. Nil if there is no such call, or if it does not wait.
  local function own_turn(record)
    local request = context.permit_request
    if not request or request.waited < 0 then
      return
    end
    local since = max(0, now - request.waited)
    for _, ticket in ipairs(record.tickets) do
      if ticket.id == request.id then
        return { id = request.id, since = min(since, ticket.since) }, ticket
      end
    end
    return { id = request.id, since = since }
  end

  -- The units of the tickets of other calls before a turn; those of all other calls without a turn.
  local function units_before(record, turn)
    local request, units = context.permit_request, 0
    for _, ticket in ipairs(record.tickets) do
      -- They are in the order of turns.
      if turn and not has_turn_before(ticket, turn) then
        break
      end
      if not request or ticket.id ~= request.id then
        units = units + ticket.units
      end
    end
    return units
  end

  -- The tickets of other calls than the call for a permit, whose own ticket is dropped when it stops
  -- waiting; their units, and the time at which the last of them expires.
  local function other_tickets(record)
    local request, tickets, units, last = context.permit_request, {}, 0, 0
    for _, ticket in ipairs(record.tickets) do
      if not request or ticket.id ~= request.id then
        tickets[#tickets + 1] = ticket
        units, last = units + ticket.units, max(last, ticket.expires_at)
      end
    end
    return tickets, units, last
  end

  local function outcome_of(key, cost)
    local record = records[key]
    if not record then
      return OUTCOME_UNREADABLE
    end
    if cost > limit then
      return OUTCOME_IMPOSSIBLE
    end
    if cost > 0 and (record.used + units_before(record, own_turn(record)) + cost > limit or record.count >= MAX_PERMITS) then
      return OUTCOME_REFUSED
    end
    return OUTCOME_ADMITTED
  end

  local function add(key, record, id, units, own_length)
    local permits, expires_at = record.permits, min(now + own_length, MAX_SAFE)
    local position = #permits + 1
    while position > 1 and unpack_struct('>d', permits, position - SIZE) > expires_at do
      position = position - SIZE
    end
    record.permits = sub(permits, 1, position - 1) .. pack(PERMIT, expires_at, id, units, own_length) .. sub(permits, position)
    record.used, record.count = record.used + units, record.count + 1
    change(key, record)
  end

  -- Removes a permit. Returns its units and its length; nil if it is not held.
  local function remove(key, record, id)
    local permits, text, start = record.permits, pack('>d', id), 1
    while true do
      local position = string.find(permits, text, start, true)
      if not position then
        return
      end
      if position % SIZE == 9 then
        local first = position - 8
        local _, _, units, own_length = permit_at(record, first)
        record.permits = sub(permits, 1, first - 1) .. sub(permits, first + SIZE)
        record.used, record.count = record.used - units, record.count - 1
        change(key, record)
        return units, own_length
      end
      start = position + 1
    end
  end

  local function remove_ticket(key, record, id)
    for index, ticket in ipairs(record.tickets) do
      if ticket.id == id then
        table.remove(record.tickets, index)
        change(key, record)
        return
      end
    end
  end

  local function charge(key, cost)
    local record, request = records[key], context.permit_request
    if request then
      remove_ticket(key, record, request.id)
    end
    add(key, record, request and (request.permit or request.id) or 0, cost, length)
  end

  local permit_functions = {}

  -- Sets the ticket of the refused call, if it waits, or removes it. A ticket with the right turn in
  -- the first half of its life stays as it is, so that most refusals write nothing.
  function permit_functions.queue(key, cost, waits)
    local record = records[key]
    if not record then
      return
    end
    local turn, ticket = own_turn(record)
    if
      waits and ticket and ticket.units == cost and ticket.since == turn.since
      and ticket.expires_at - now > TICKET_LIFE / 2
    then
      return
    end
    remove_ticket(key, record, context.permit_request.id)
    local tickets = record.tickets
    if waits and turn and #tickets < MAX_TICKETS then
      turn.units, turn.expires_at = cost, now + TICKET_LIFE
      local index = #tickets + 1
      while index > 1 and has_turn_before(turn, tickets[index - 1]) do
        index = index - 1
      end
      table.insert(tickets, index, turn)
      change(key, record)
    end
  end

  function permit_functions.drop_ticket(key, id)
    remove_ticket(key, records[key], id)
  end

  -- Both return whether the permit was held.
  function permit_functions.release(key, id)
    local units = remove(key, records[key], id)
    remove_ticket(key, records[key], id)
    return units ~= nil
  end

  function permit_functions.renew(key, id)
    local units, own_length = remove(key, records[key], id)
    if units then
      add(key, records[key], id, units, own_length)
    end
    return units ~= nil
  end

  -- The time from which a cost fits if nothing is renewed and there are no tickets.
  local function free_of_permits_at(record, cost)
    local used, count, position, time = record.used, record.count, 1, now
    while position < #record.permits and (used + cost > limit or count >= MAX_PERMITS) do
      local expires_at, _, units = unpack_struct('>ddd', record.permits, position)
      time, used, count, position = expires_at, used - units, count - 1, position + SIZE
    end
    return time
  end

  -- The time from which a cost fits if nothing is renewed.
  local function free_at(record, cost)
    -- Mostly all tickets expire before the permits, and need not be sorted.
    local tickets, ticket_units, last_ticket = other_tickets(record)
    local permits_free_at = free_of_permits_at(record, cost)
    if permits_free_at >= last_ticket then
      return permits_free_at
    end
    local used, count, position = record.used + ticket_units, record.count, 1
    table.sort(tickets, function(a, b) return a.expires_at < b.expires_at end)
    local next_ticket = 1
    while true do
      local ticket, time = tickets[next_ticket]
      local expires_at, _, units = math.huge
      if position < #record.permits then
        expires_at, _, units = unpack_struct('>ddd', record.permits, position)
      end
      if ticket and ticket.expires_at <= expires_at then
        time, used, next_ticket = ticket.expires_at, used - ticket.units, next_ticket + 1
      elseif units then
        time, used, count, position = expires_at, used - units, count - 1, position + SIZE
      else
        return now
      end
      if used + cost <= limit and count < MAX_PERMITS then
        return time
      end
    end
  end

  -- The end of the last permit; 0 if there is none.
  local function end_of_permits(record)
    return record.count > 0 and unpack_struct('>d', record.permits, #record.permits - SIZE + 1) or 0
  end

  local function encode_state(key, cost, outcome)
    local record = records[key]
    if not record then
      return pack('>ddddd', 0, 0, 0, 0, 0)
    end
    local _, ticket_units, last_ticket = other_tickets(record)
    local remaining = record.count < MAX_PERMITS and max(0, limit - record.used - ticket_units) or 0
    local retry_at = outcome == OUTCOME_REFUSED and free_at(record, cost) or 0
    local next_at = remaining == 0 and free_at(record, 1) or 0
    return pack('>ddddd', limit, remaining, retry_at, next_at, max(end_of_permits(record), last_ticket))
  end

  local function write_permits(key)
    local record, parts = records[key], {}
    if record.count == 0 and #record.tickets == 0 then
      record.changed_at = 0
    end
    parts[1] = pack('>ddI4I4', record.changed_at, record.used, record.count, #record.tickets)
    parts[2] = record.permits
    for index, ticket in ipairs(record.tickets) do
      parts[index + 2] = pack(TICKET, ticket.since, ticket.id, ticket.units, ticket.expires_at)
    end
    parts[#parts + 1] = 'P'
    local last = end_of_permits(record)
    for _, ticket in ipairs(record.tickets) do
      last = max(last, ticket.expires_at)
    end
    -- One more millisecond, because Redis's clock for expiry may be behind the script's.
    local ttl = last > now and math.ceil((last - now) / 1000) + 1 or 0
    return write_string(context, key, write_modes[key], table.concat(parts), ttl)
  end

  return {
    after = after, is_string = true, reports_limits = true, dirty_keys = dirty_keys, write_modes = write_modes,
    permit_functions = permit_functions, read = read, outcome_of = outcome_of, charge = charge,
    refund = function() return 0 end, encode_state = encode_state,
    mark_rewrite = mark_rewrite, write = write_permits,
  }
end
