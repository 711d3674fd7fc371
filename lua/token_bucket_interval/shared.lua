-- The refills after which nothing is used.
local function refills_for(used, per_refill)
  local rest = used % per_refill
  return (used - rest) / per_refill + (rest > 0 and 1 or 0)
end

-- The anchor and the units used with all refills counted up to now; if none are used, the anchor is now.
local function counted(now, anchor, used, length_of_one, per_refill)
  local elapsed = now - anchor
  if elapsed < length_of_one then
    return anchor, used
  end
  local refills = (elapsed - elapsed % length_of_one) / length_of_one
  if refills >= refills_for(used, per_refill) then
    return now, 0
  end
  return anchor + refills * length_of_one, used - refills * per_refill
end
