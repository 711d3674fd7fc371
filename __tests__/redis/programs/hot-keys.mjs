// A process that takes units of three hot keys under several policies over Redis, as fast as it
// can, for a while. An unhandled rejection ends it, and so fails the test.
import { RateLimiter, RedisStore } from 'tollgate'
import { randomOf, skewOfClock } from './random.mjs'

// `inFlight` calls are under way for each policy.
const { url, policies, inFlight, ms, seed } = JSON.parse(process.argv[2])
const store = new RedisStore({ url, commandTimeout: 30_000 })
const random = randomOf(seed)
const limiters = policies.map(({ name, policy }) => new RateLimiter(policy, { store, prefix: name }))

/**
 * The behaviour of callers, by key: a call's cost, and whether there are calls at a time after the
 * start.
 */
const KEYS = [
  { key: 'steady', cost: () => 1, isHot: () => true },
  { key: 'weighted', cost: () => 1 + Math.floor(random() * 5), isHot: () => true },
  // Over time the bursts hit all phases of the windows.
  { key: 'bursts', cost: () => 1 + Math.floor(random() * 2), isHot: (elapsed) => elapsed % 670 < 280 },
]

await Promise.all(limiters.map((limiter) => limiter.ready()))
process.send('ready')
process.once('message', async () => {
  const skew = skewOfClock()
  const admitted = policies.map(() => Object.fromEntries(KEYS.map(({ key }) => [key, []])))
  // By policy: the milliseconds in which a call on the steady key was decided.
  const decided = policies.map(() => new Set())
  const failures = []
  const start = performance.now()
  let calls = 0

  async function loop() {
    for (let elapsed = 0; elapsed < ms; elapsed = performance.now() - start) {
      const call = calls++
      const which = call % limiters.length
      const turn = KEYS[Math.floor(call / limiters.length) % KEYS.length]
      const { key, cost } = turn.isHot(elapsed) ? turn : KEYS[0]
      const units = cost()
      try {
        const decision = await limiters[which].take(key, units)
        if (key === KEYS[0].key) {
          decided[which].add(Math.floor(decision.at))
        }
        if (decision.allowed) {
          admitted[which][key].push([Math.round(decision.at * 1_000), units])
        }
      } catch ({ code, charged }) {
        failures.push({ code, charged })
      }
    }
  }

  await Promise.all(Array.from({ length: inFlight * limiters.length }, loop))
  await store.close()
  process.send({ admitted, decided: decided.map((millis) => [...millis]), calls, failures, skew }, () =>
    process.disconnect(),
  )
})
