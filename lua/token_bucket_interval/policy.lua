-- Decodes an interval bucket's policy at `at` of `request`. `numbers` are those of its numbers that
-- are in a value.
local every, tokens, max_used, capacity, initial, ttl_step, after = struct.unpack('>dddddd', request, at)
local numbers = string.sub(request, at, at + 23)
local value_size = initial < capacity and 41 or 40
