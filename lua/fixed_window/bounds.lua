-- Bounds for packed windows: the smallest value of an open window, the smallest value that ends too
-- late, and the largest count.
local min_window = new_end and (math.floor(now / 1000) + 1 - VALUE_EPOCH_MS) * VALUE_COUNTS or math.huge
local past_window, max_count = (latest_end + 1 - VALUE_EPOCH_MS) * VALUE_COUNTS, math.min(limit, VALUE_COUNTS - 1)
