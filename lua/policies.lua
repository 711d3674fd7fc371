-- Notes by which policies calls on a prefix are decided, and tells all that are noted: see src/redis/batch/policy_registry.rs.
--
-- KEYS[1]: a sorted set of the policies' texts, by when they are to be forgotten, in milliseconds.
-- ARGV: the text of the caller's policies; how long it is to be kept, in milliseconds.

-- So many texts are kept at most: the latest.
local MAX_TEXTS = 16
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - MAX_TEXTS)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZRANGE', KEYS[1], 0, -1)
