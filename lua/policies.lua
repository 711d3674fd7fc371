-- Registers the policies of a prefix, or only reads. Returns the texts of all policies registered
-- there.
-- src/redis/batch/policy_registry.rs is the caller.
--
-- KEYS[1]  a sorted set: policy texts, scored by the time in milliseconds until which they count as used
-- ARGV[1]  the text of the caller's policies
-- ARGV[2]  the time for which the text counts as used, in milliseconds; 0 to only read

-- The set keeps the texts that were used last. It keeps them for longer than they count as used, for the command
-- line: blocks and bans outlast the calls of a limiter.
local MAX_TEXTS = 16
local KEPT_MS = 30 * 86400 * 1000
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[2] ~= '0' then
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - KEPT_MS))
  redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - MAX_TEXTS)
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', KEPT_MS))
end
return redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f', now), '+inf')
