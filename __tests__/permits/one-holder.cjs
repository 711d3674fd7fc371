/** Acquires one permit, tells its parent, and holds it. */
const { concurrency, RateLimiter, RedisStore } = require('../../dist/index.js')

const { url, prefix, limit, ttl } = JSON.parse(process.argv[2])
const store = new RedisStore({ url, commandTimeout: 30_000 })
const limiter = new RateLimiter(concurrency({ limit, ttl }), { store, prefix })
// The parent keeps it alive.
process.on('message', () => {})
void limiter.acquire('key', { cost: limit }).then(({ allowed }) => process.send(allowed))
