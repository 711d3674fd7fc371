-- Registers the policies of a prefix, or only reads. Returns the texts of all policies registered
-- there.
-- src/redis/batch/policy_registry.rs is the caller.
--
-- KEYS[1]  a sorted set: policy texts, scored by their expiry in milliseconds
-- ARGV[1]  the text of the caller's policies
-- ARGV[2]  the time to keep the text, in milliseconds; 0 to only read

-- The set keeps the texts with the latest expiry.
local MAX_TEXTS = 16
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[2] ~= '0' then
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
  redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - MAX_TEXTS)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f', now), '+inf')
