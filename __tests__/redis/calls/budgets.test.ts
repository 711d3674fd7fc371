/** Parallel streams of unknown length on one budget of two meters, over several connections. */
import { setImmediate as turn } from 'node:timers/promises'
import { fixedWindow, RateLimiter, RedisStore } from '../../../ts/index.js'
import { Random } from '../../random.js'
import { RedisServer } from '../../servers/redis-server.js'

const BUDGET = { tokens: 20_000, cents: 3_000 }
const PART = 200
const STREAMS = 64

const policies = {
  tokens: fixedWindow({ limit: BUDGET.tokens, window: '1h', meter: 'tokens' }),
  money: fixedWindow({ limit: BUDGET.cents, window: '1h', meter: 'cents' }),
}

/** The cost of tokens: seven for each started cent. */
const costOf = (tokens: number) => ({ tokens, cents: Math.ceil(tokens / 7) })

let redis: RedisServer

beforeAll(async () => {
  redis = await RedisServer.start()
})

afterAll(() => redis.stop())

test('64 parallel streams use no more than the budget of each meter, and all of the scarcer one', async () => {
  const stores = [1, 2, 3].map(() => new RedisStore(redis.url))
  const limiters = stores.map((store) => new RateLimiter(policies, { store, prefix: 'budget' }))
  const random = new Random(64)
  const used = { tokens: 0, cents: 0 }
  /** Streams one answer. Returns whether the budget had room for its beginning. */
  const stream = async (limiter: (typeof limiters)[number]) => {
    const length = random.whole(1, 1_500)
    let reserved = Math.min(PART, length)
    const reservation = await limiter.reserve('customer', costOf(reserved), { ttl: '1m' })
    if (!reservation.allowed) {
      return false
    }
    const charged = costOf(reserved)
    let generated = 0
    while (generated < length) {
      if (generated === reserved) {
        const part = Math.min(PART, length - reserved)
        const { extended } = await reservation.extend(costOf(part))
        if (!extended) {
          break
        }
        reserved += part
        charged.cents += costOf(part).cents
      }
      await turn()
      generated = Math.min(reserved, generated + 50)
    }
    const actual = { tokens: generated, cents: Math.min(charged.cents, costOf(generated).cents) }
    expect(await reservation.commit(actual)).toMatchObject({ settled: true, shortfall: { tokens: 0, cents: 0 } })
    used.tokens += actual.tokens
    used.cents += actual.cents
    return true
  }
  const place = async (limiter: (typeof limiters)[number]) => {
    for (let refused = 0; refused < 3; ) {
      refused = (await stream(limiter)) ? 0 : refused + 1
    }
  }
  await Promise.all(
    Array.from({ length: STREAMS }, (_, index) => place(limiters[index % 3] as (typeof limiters)[number])),
  )
  const [limiter] = limiters as [(typeof limiters)[number]]
  const { policies: left } = await limiter.peek('customer', { cost: { tokens: 0, cents: 0 } })
  expect({ tokens: BUDGET.tokens - used.tokens, cents: BUDGET.cents - used.cents }).toEqual({
    tokens: left.tokens.remaining,
    cents: left.money.remaining,
  })
  expect(Math.min(left.tokens.remaining, left.money.remaining)).toBeLessThan(PART)
  await Promise.all(stores.map((store) => store.close()))
})
