-- Bucket arithmetic of sliding windows, for the fast path and the general path.

-- The end of the current bucket, the horizon (entries that count end later), and the latest end
-- that an entry can have without a clock step.
local function bucket_of(now, width, span)
  local start = now - now % width
  return start + width, start - span, start + width + span
end

-- Until when a key is kept, by its newest entry's end and its reset time. The TTL reaches to the
-- second next multiple of a window after the reset time, so that a new bucket rarely changes it. It
-- follows only from stored numbers, so other versions compute the same TTL.
local function retain_until(entry_end, reset_at)
  local MIN_TTL_STEP = 1000000
  local step = math.max(reset_at - entry_end, MIN_TTL_STEP)
  return reset_at - reset_at % step + 2 * step
end
