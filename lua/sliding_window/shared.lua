-- The end of the bucket of now, the time after which an entry that counts ends, and the time after which only one
-- ends that was left by a clock step.
local function bucket_of(now, width, span)
  local start = now - now % width
  return start + width, start - span, start + width + span
end

-- Until when a key is kept whose newest entry and settling are these. A TTL reaches to the second next multiple
-- of a window after the settling, so that it need not be set anew with each bucket. It follows from what is
-- stored, whoever wrote it: so also another version knows how far a TTL reaches.
local function retain_until(entry_end, reset_at)
  local MIN_TTL_STEP = 1000000
  local step = math.max(reset_at - entry_end, MIN_TTL_STEP)
  return reset_at - reset_at % step + 2 * step
end
