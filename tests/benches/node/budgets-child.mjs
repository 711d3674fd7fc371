/**
 * A process of a gateway, for `budgets.mjs`. It streams answers until the budget refuses the next one, reports
 * what all its streams have used, and then ends.
 *
 * Arguments: the name of the way to count, the URL of Redis, the seed of its streams, and their number at a time.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { fixedWindow, RateLimiter, RedisStore } from 'tollgate'
import { BUDGET, CHUNK, costOf, PART, streamsOf } from './budget-plans.mjs'

const [way, url, seed, atATime] = process.argv.slice(2)

const KEY = 'customer:7'

/** Generates the tokens of a stream until `mayGoOn` refuses the next ones. Returns the generated ones. */
async function generate(output, mayGoOn = () => true) {
  let generated = 0
  while (generated < output) {
    const chunk = Math.min(CHUNK, output - generated)
    if (!(await mayGoOn(generated + chunk))) break
    await sleep(2)
    generated += chunk
  }
  return generated
}

/** Each streams one answer. Returns its tokens, or nothing if the budget refuses it. */
const WAYS = {
  /** Reads the counts, compares them with an estimate, and adds the usage at the end. */
  checkThenAdd() {
    const redis = new Redis(url)
    return {
      async stream({ input, output }) {
        const estimate = costOf({ input, output: PART })
        for (const meter of Object.keys(BUDGET)) {
          if (Number(await redis.get(meter)) + estimate[meter] > BUDGET[meter]) return undefined
        }
        const used = { input, output: await generate(output) }
        for (const [meter, units] of Object.entries(costOf(used))) await redis.incrby(meter, units)
        return used
      },
      close: () => redis.quit(),
    }
  },
  /** Refuses once the budget is used up, and counts the usage at the end. */
  countAfterwards() {
    const redis = new Redis(url)
    return {
      async stream({ input, output }) {
        const [tokens, microcents] = await redis.mget('tokens', 'microcents')
        if (Number(tokens) >= BUDGET.tokens || Number(microcents) >= BUDGET.microcents) return undefined
        const used = { input, output: await generate(output) }
        const { tokens: units, microcents: price } = costOf(used)
        await redis.multi().incrby('tokens', units).incrby('microcents', price).exec()
        return used
      },
      close: () => redis.quit(),
    }
  },
  /** Reserves a part of each meter, extends the reservation while the answer streams, and commits the usage. */
  tollgate() {
    const store = new RedisStore(url)
    const limiter = new RateLimiter(
      {
        tokens: fixedWindow({ limit: BUDGET.tokens, window: '1h', meter: 'tokens' }),
        money: fixedWindow({ limit: BUDGET.microcents, window: '1h', meter: 'microcents' }),
      },
      { store, prefix: 'budget' },
    )
    return {
      async stream({ input, output }) {
        const reservation = await limiter.reserve(KEY, costOf({ input, output: Math.min(PART, output) }), { ttl: '1m' })
        if (!reservation.allowed) return undefined
        let reserved = Math.min(PART, output)
        const generated = await generate(output, async (wanted) => {
          if (wanted <= reserved) return true
          const more = Math.min(PART, output - reserved)
          const { extended } = await reservation.extend(costOf({ input: 0, output: more }))
          if (extended) reserved += more
          return extended
        })
        const used = { input, output: generated }
        await reservation.commit(costOf(used))
        return used
      },
      close: () => store.close(),
    }
  },
}

const { stream, close } = WAYS[way]()
process.once('message', async () => {
  const used = { tokens: 0, microcents: 0 }
  let [answers, cut] = [0, 0]
  const streams = streamsOf(Number(seed))
  /** One place for a stream at a time, until the budget refuses three streams in turn: a shorter one may fit. */
  const place = async () => {
    for (let refused = 0; refused < 3; ) {
      const { value } = streams.next()
      const one = await stream(value)
      if (one === undefined) {
        refused++
        continue
      }
      refused = 0
      answers++
      if (one.output < value.output) cut++
      for (const [meter, units] of Object.entries(costOf(one))) used[meter] += units
    }
  }
  await Promise.all(Array.from({ length: Number(atATime) }, place))
  await close()
  process.send({ used, answers, cut }, () => process.exit())
})
process.send('ready')
