/**
 * The addon and WebAssembly are one engine: the same calls have the same results, in every field.
 */

import * as native from '../../ts/index.js'
import * as wasm from '../../ts/wasm/index.js'
import { CASES } from './cases.js'
import { type AnyLimiter, Random, TracedClock, TracedPair } from './trace.js'

const STEPS = 20_000

test.each(CASES)('$name', async ({ policy, ...asking }) => {
  const clock = new TracedClock()
  const random = new Random(asking.maxCost * 1_000 + asking.horizonMs)
  // A store of so few keys has one shard. With more shards the hashes, which differ, would decide
  // which fresh keys are dropped, and a clock that is set back would show the difference.
  const options = { clock: clock.read, maxKeys: 1_000 }
  const limiters = [
    new native.RateLimiter(policy, { store: new native.MemoryStore(options) }),
    new wasm.RateLimiter(policy, { store: new wasm.MemoryStore(options) }),
  ] as unknown as readonly [AnyLimiter, AnyLimiter]
  const traced = new TracedPair(limiters, asking, random)
  for (let step = 0; step < STEPS; step++) {
    clock.step(random, asking.horizonMs)
    await traced.step()
  }
  // The trace has been in all states.
  expect(traced.seen.get('takeSync allowed')).toBeGreaterThan(STEPS / 100)
  expect(traced.seen.get('takeSync refused')).toBeGreaterThan(STEPS / 1_000)
  expect(traced.seen.get('takeSync blocked')).toBeGreaterThan(0)
  expect([...traced.seen.keys()]).toEqual(expect.arrayContaining(['peek allowed', 'takeMany', 'refund', 'penalize']))
})
