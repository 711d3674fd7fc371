-- The time in which `count` units drain at P' = q*N' + r, where count*r + N' is below 2^53.
local function time_of(count, q, r, n)
  local product = count * r
  return count * q + math.floor(product / n), product % n
end
