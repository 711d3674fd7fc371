-- Computes `state`, the state after a take of `cost` units from `value`: only if it has this policy,
-- is not full and has room for the cost. Such a call changes only the anchor and the used units.
local state
if value and #value == value_size and string.find(value, numbers, 17, true) == 17 then
  local old_anchor, old_used = struct.unpack('>dd', value)
  if
    old_anchor >= 0 and old_anchor <= now and old_anchor % 1 == 0
    and old_used > 0 and old_used <= max_used and old_used % 1 == 0
  then
    local anchor, used = refill(now, old_anchor, old_used, every, tokens)
    local with_cost = used + cost
    if used > 0 and with_cost <= capacity then
      local old = old_anchor + refills_for(old_used, tokens) * every
      local new = anchor + refills_for(with_cost, tokens) * every
      if new - new % ttl_step == old - old % ttl_step then
        state = struct.pack('>dd', anchor, with_cost)
      end
    end
  end
end
