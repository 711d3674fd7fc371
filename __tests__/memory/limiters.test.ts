/**
 * Limiters on embedded stores share one native function and one result buffer: their results do not
 * mix.
 */
import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { engine } from '../../ts/backends/addon.js'
import { POLICY_KINDS } from '../../ts/backends/protocol.js'
import { fixedWindow, MemoryStore, RateLimiter, slidingLog } from '../../ts/index.js'

test('each limiter returns its own numbers, whichever limiter was called before', async () => {
  const store = new MemoryStore()
  const limiters = [3, 5, 7].map((limit) => {
    return new RateLimiter(fixedWindow({ limit, window: '1h' }), { store, prefix: `of-${limit}` })
  })
  // Named limits have a separate function.
  const named = new RateLimiter(slidingLog({ limits: { hour: { limit: 9, window: '1h' } } }), {
    store,
    prefix: 'named',
  })
  const elsewhere = new RateLimiter(fixedWindow({ limit: 11, window: '1h' }))
  const all = [...limiters, named, elsewhere]
  for (const remaining of [1, 2, 3]) {
    const decisions = [...all].reverse().map((limiter) => limiter.takeSync('key'))
    expect(decisions.map(({ remaining }) => remaining)).toEqual([11, 9, 7, 5, 3].map((limit) => limit - remaining))
  }
  await limiters[0]?.close()
  const reopened = new RateLimiter(fixedWindow({ limit: 4, window: '1h' }))
  expect(limiters[1]?.takeSync('key').remaining).toBe(1)
  expect(reopened.takeSync('key').remaining).toBe(3)
  expect(() => limiters[0]?.takeSync('key')).toThrow('the limiter has been closed')
})

test('a clock that calls another limiter gets its result, and so does the outer call', () => {
  const inner = new RateLimiter(fixedWindow({ limit: 100, window: '1h' }))
  const innerResults: number[] = []
  const store = new MemoryStore({
    clock: () => {
      innerResults.push(inner.takeSync('ticks').remaining)
      return 1_000_000
    },
  })
  const outer = new RateLimiter(fixedWindow({ limit: 5, window: '1h' }), { store })
  expect([outer.takeSync('key'), outer.takeSync('key', 2)].map(({ remaining }) => remaining)).toEqual([4, 2])
  expect(innerResults).toEqual([99, 98])
  expect(inner.takeSync('ticks').remaining).toBe(97)
})

test('the slot of a garbage-collected backend is reused', async () => {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  const { LimiterRegistry, Policy, PolicySet } = engine
  if (LimiterRegistry === undefined) {
    throw new Error('the addon has it')
  }
  const registry = new LimiterRegistry()
  const add = () => {
    const policies = PolicySet.single(Policy.fromNumbers(POLICY_KINDS.fixedWindow.kind, [5, 1_000_000, 0]))
    return registry.add(new engine.MemoryStore(10, undefined, false).open('prefix', policies))
  }
  expect([add(), add(), add()]).toEqual([0, 1, 2])
  let next = Number.POSITIVE_INFINITY
  for (let tries = 0; tries < 100 && next > 2; tries++) {
    collectGarbage()
    await turn()
    next = add()
  }
  expect(next).toBeLessThan(3)
})
