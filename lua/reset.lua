-- Makes keys as if never used.
return { redis.call('DEL', unpack(KEYS)) }
