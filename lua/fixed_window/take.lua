-- Computes `charged`: whether the packed value `window` is of an open window with room for `cost` units.
local used = window and window % VALUE_COUNTS + cost
local charged = window and window >= min_window and window < past_window
  and used > cost and used <= max_count and used % 1 == 0
