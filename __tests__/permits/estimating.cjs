/**
 * Acquires permits with an estimate of further units, tells its parent, and holds them until it is killed. With `id` it
 * acquires one by this id.
 */
const { RateLimiter, RedisStore } = require('../../dist/index.js')

const { url, prefix, policies, cost, id } = JSON.parse(process.argv[2])
const store = new RedisStore({ url, commandTimeout: 30_000 })
const limiter = new RateLimiter(policies, { store, prefix })
// The parent keeps it alive.
process.on('message', () => {})
const calls =
  id === undefined
    ? [limiter.acquire('key', { cost }), limiter.reserve('key', cost, { ttl: '1h' })]
    : [limiter.acquire('key', { cost, id })]
void Promise.all(calls).then((permits) => {
  process.send(permits.map(({ allowed, id }) => (allowed ? id : undefined)))
})
