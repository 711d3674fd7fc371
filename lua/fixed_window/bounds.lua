-- Bounds for packed windows: the smallest value of an open window, the smallest value that ends too
-- late, and the largest count.
local EPOCH, COUNTS = 1577836800000, 8192
local min_window = new_end and (math.floor(now / 1000) + 1 - EPOCH) * COUNTS or math.huge
local past_window, max_count = (latest_end + 1 - EPOCH) * COUNTS, math.min(limit, COUNTS - 1)
