-- Arithmetic of rates, for the fast path and the general path.

-- The time in which `count` units drain, at P' = q*N' + r. `count`*r + N' must be below 2^53.
-- Returns whole microseconds and N'-ths of one.
local function time_of(count, q, r, n)
  local product = count * r
  return count * q + math.floor(product / n), product % n
end
