/** A surplus argument to a function of `tollgate/wasm` is an error. */
import * as wasm from '../../ts/wasm/index.js'
import { CORE, functionsOf, refusesSurplus, type Signature, SYNC_METHODS } from '../api/surplus.js'

const SIGNATURES: Readonly<Record<string, Signature>> = {
  ...CORE,
  'RedisStore.from': [[async () => [], {}], 'RedisStore.from takes a client and an object of options'],
  'RedisStore.on': [['warning', () => {}], 'on takes an event and a listener'],
}

const limiter = new wasm.RateLimiter(wasm.gcra({ limit: 1_000, period: '1m' }))

test('the list has all of its functions', () => {
  // `from` makes the stores: their constructor is private.
  const found = functionsOf(wasm).filter((name) => name !== 'RedisStore')
  const methods = Object.keys(SIGNATURES).filter((name) => name.startsWith('Reservation.'))
  expect([...found, ...methods].sort()).toEqual(Object.keys(SIGNATURES).sort())
})

test.each(Object.entries(SIGNATURES))('%s', async (name, expected) => {
  const [owner, method] = name.split('.') as [string, string | undefined]
  if (method === undefined) {
    return refusesSurplus(wasm, name, expected, false)
  }
  const RedisStore = method === 'from' ? wasm.RedisStore : wasm.RedisStore.from(async () => [])
  const subject = { RateLimiter: limiter, RedisStore, Reservation: await limiter.reserve('b', 1) }[owner]
  const isAsync = owner !== 'RedisStore' && !SYNC_METHODS.includes(method)
  await refusesSurplus(subject as object, method, expected, isAsync)
})
