/** Scenarios that once failed, and what the simulation itself must be able to do. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { concurrency, fixedWindow, gcra } from '../../dist/wasm/index.mjs'
import { run, runScenario } from './run.mjs'

/** A scenario of one process. */
function scenario(options, faults) {
  return {
    delays: { minMicros: 1_000, jitterMicros: 1 },
    timeoutMs: 100,
    faultyMs: 500,
    drift: 0,
    replicationMs: 50,
    processes: [
      {
        client: 'ordered',
        onStoreFailure: 'throw',
        knowsHealth: false,
        isLate: false,
        pauseMs: 20,
        lawPauseMs: 5,
        burst: 3,
        ...options,
      },
    ],
    law: { policy: gcra({ limit: 100, period: '1s', burst: 20 }), burst: 20, perMs: 0.1, maxKeys: 10 },
    permits: concurrency({ limit: 2, ttl: '500ms' }),
    slots: gcra({ limit: 100, period: '1s', burst: 2 }),
    faults: faults.map((fault) => ({ server: 0, keeps: true, afterMs: 50, ...fault })),
  }
}

/** A limiter with leases in it. */
function withLeases(played) {
  const law = { policy: fixedWindow({ limit: 40, window: '400ms' }), limit: 40, window: 400 }
  return { ...played, timeoutMs: 300, law: { ...law, leaseMs: 200, maxKeys: 10 } }
}

async function passes(played) {
  for (const seed of [1, 2, 3]) {
    const { calls, violations } = await runScenario(played, seed)
    assert.ok(calls > 100)
    assert.deepEqual(violations, [])
  }
}

test('equal seeds give equal runs, whatever was played before', async () => {
  const digests = []
  for (const seed of [1, 2, 3, 3, 2, 1]) {
    digests.push((await run(seed)).digest)
  }
  assert.equal(new Set(digests).size, 3)
  assert.deepEqual(digests.slice(0, 3), digests.slice(3).reverse())
})

// Connections that break in the tick in which a flush is sent. Its round trip was 0, and so was the
// number of flushes that may be in flight.
test('a round trip of no measurable time stops no flushes', async () => {
  const faults = [
    { atMs: 100, kind: 'pause', lastingMs: 75 },
    { atMs: 160, kind: 'restart', lastingMs: 50 },
  ]
  await passes(scenario({ client: 'request', onStoreFailure: 'refuse' }, faults))
})

// Calls that had waited for a group asked as the first of another one. The request for the units of that
// group had a new deadline, for which all waited.
test('a group asks for units by the deadline of its first call', async () => {
  const options = { client: 'request', onStoreFailure: 'refuse', lawPauseMs: 3 }
  const faults = [{ atMs: 200, kind: 'busy', lastingMs: 600 }]
  await passes(withLeases(scenario(options, faults)))
})
