// A process that reserves units over Redis, and settles them in all ways, at random, a number of times.
// An unhandled rejection ends it, and so fails the test.
import { setTimeout as sleep } from 'node:timers/promises'
import { RateLimiter, RedisStore } from 'tollgate'
import { randomOf } from './random.mjs'

const { url, prefix, hour, short, inFlight, rounds, seed } = JSON.parse(process.argv[2])
const store = new RedisStore({ url, commandTimeout: 30_000 })
const limiters = {
  hour: new RateLimiter(hour, { store, prefix }),
  short: new RateLimiter(short, { store, prefix: 'short' }),
}

const random = randomOf(seed)
const any = (count) => Math.floor(random() * count)

// The actual units; never more than reserved in the short window, because only its own window is
// reported.
function actualOf(units, isHour) {
  return [0, any(units), units, isHour ? units + 1 + any(3) : units][any(4)]
}

await Promise.all(Object.values(limiters).map((limiter) => limiter.ready()))
process.send('ready')
process.once('message', async () => {
  // The spent units of the hour; those of the short windows by their end, in epoch milliseconds;
  // and the counts of outcomes.
  const [windows, counts] = [{}, { allowed: 0, refused: 0, settled: 0, again: 0, expired: 0, forgotten: 0 }]
  let spent = 0

  async function settle(reservation, isHour) {
    const { units, decision } = reservation
    const end = Math.floor((Math.round(decision.at * 1_000) + decision.resetAfterMs * 1_000) / 1_000)
    if (any(40) === 0) {
      counts.forgotten++
    } else {
      await sleep(any(3) * 10)
      // Some are settled immediately, and all more than once.
      const actuals = [actualOf(units, isHour), actualOf(units, isHour)]
      const settlements = await Promise.all(actuals.map((actual) => reservation.commit(actual)))
      settlements.push(await reservation.cancel())
      for (const { settled, reason, refunded, charged } of settlements) {
        counts[settled ? 'settled' : reason === 'expired' ? 'expired' : 'again']++
        if (settled) {
          spent += isHour ? charged - refunded : 0
          windows[end] = (windows[end] ?? 0) - (isHour ? 0 : refunded)
        }
      }
    }
  }

  async function loop(isHour) {
    for (let round = 0; round < rounds; round++) {
      const units = 1 + any(4)
      const ttl = any(8) === 0 ? 5 : 800
      const reservation = await (isHour ? limiters.hour : limiters.short).reserve('key', units, { ttl })
      counts[reservation.allowed ? 'allowed' : 'refused']++
      if (reservation.allowed) {
        const { at, resetAfterMs } = reservation.decision
        const end = Math.floor((Math.round(at * 1_000) + resetAfterMs * 1_000) / 1_000)
        spent += isHour ? units : 0
        windows[end] = (windows[end] ?? 0) + (isHour ? 0 : units)
        await settle(reservation, isHour)
      } else {
        await sleep(any(10))
      }
    }
  }

  await Promise.all(Array.from({ length: 2 * inFlight }, (_, number) => loop(number < inFlight)))
  await store.close()
  process.send({ spent, windows, counts }, () => process.disconnect())
})
