-- The deciding clock: Redis's own, read once, in microseconds since the Unix epoch.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
