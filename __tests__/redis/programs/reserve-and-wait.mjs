// A process that reserves units and then idles until it is killed.
import { RateLimiter, RedisStore } from 'tollgate'

const { url, policies, units, ttl } = JSON.parse(process.argv[2])
const store = new RedisStore(url)
const reservations = policies.map(async (policy, index) => {
  const limiter = new RateLimiter(policy, { store, prefix: `killed-${index}` })
  return (await limiter.reserve('key', units, { ttl })).allowed
})
process.send(await Promise.all(reservations))
setInterval(() => {}, 1_000)
