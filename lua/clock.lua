-- Reads Redis's clock once: `now` is the time of all decisions, in microseconds since the Unix
-- epoch.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
