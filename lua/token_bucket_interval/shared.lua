-- Refill arithmetic of interval buckets, for the fast path and the general path.

-- The number of refills after which no unit is used.
local function refills_for(used, tokens)
  local rest = used % tokens
  return (used - rest) / tokens + (rest > 0 and 1 or 0)
end

-- The anchor and the used units after all refills up to now. If no unit is used, the anchor is now.
local function refill(now, anchor, used, interval, tokens)
  local elapsed = now - anchor
  if elapsed < interval then
    return anchor, used
  end
  local refills = (elapsed - elapsed % interval) / interval
  if refills >= refills_for(used, tokens) then
    return now, 0
  end
  return anchor + refills * interval, used - refills * tokens
end
