/** What a seed stands for: servers, processes, policies, traffic and faults. */
import { concurrency, fixedWindow, gcra, slidingWindow, tokenBucket } from '../../../dist/wasm/index.mjs'
import { Random } from './random.mjs'

/** The share of the fallbacks. */
export const SHARE = 0.5

export function scenarioOf(seed) {
  const random = new Random(seed)
  const isDistant = random.chance(0.1)
  const faultyMs = random.whole(300, 1_500)
  const timeoutMs = random.choose(isDistant ? [1_000] : [100, 300, 1_000])
  const law = lawOf(random)
  const scenario = {
    delays: {
      minMicros: random.whole(0, isDistant ? 40_000 : 3_000),
      jitterMicros: random.whole(1, isDistant ? 20_000 : 4_000),
    },
    timeoutMs,
    faultyMs,
    // Leases allow for 0.1 %. Cached refusals go by the clock of the process.
    drift: law.refusalsMs === undefined ? random.choose([0, 0.0005, -0.0005]) : 0,
    replicationMs: random.whole(10, 200),
    processes: Array.from({ length: random.whole(1, 4) }, (_, index) => processOf(random, isDistant, law, index)),
    law,
    permits: concurrency({ limit: random.whole(2, 5), ttl: random.choose(['200ms', '500ms', '1500ms']) }),
    // Slots are apart by the period over the limit.
    slots: gcra({ limit: random.choose([20, 100]), period: '1s', burst: random.whole(2, 6) }),
    faults: Array.from({ length: random.whole(0, 6) }, () => faultOf(random, faultyMs)).sort(
      (one, other) => one.atMs - other.atMs,
    ),
  }
  // Leases cannot be used with meters. Drawn last, so that scenarios without meters stay as they are.
  const isMetered = law.leaseMs === undefined && random.chance(0.3)
  return isMetered ? { ...scenario, law: { ...law, tokens: policyLawOf(random, undefined) } } : scenario
}

function processOf(random, isDistant, { leaseMs }, index) {
  // Requests on a key wait for each other, so at a distance there is time for few.
  const client = isDistant ? 'ordered' : random.choose(['ordered', 'ordered', 'request'])
  return {
    client,
    onStoreFailure: random.choose(['throw', 'throw', 'allow', 'refuse', { embedded: { share: SHARE } }]),
    // As the native store: knows that the server is silent, and may be late with its deadlines.
    knowsHealth: random.chance(0.5),
    isLate: client === 'ordered' && random.chance(0.3),
    pauseMs: random.choose([60, 120]),
    // Only keys that are called often have leases.
    lawPauseMs: random.choose(leaseMs === undefined ? [50, 120] : index === 0 ? [4, 8] : [8, 30]),
    burst: leaseMs === undefined ? random.choose([3, 12]) : 3,
  }
}

/**
 * A policy whose law is checked, with the calls that processes decide themselves. `tokens` is the law of a second
 * policy, if there is one, which has a meter.
 */
function lawOf(random) {
  const leaseMs = random.choose([undefined, undefined, undefined, 50, 200, 400])
  const refusalsMs = leaseMs !== undefined && random.chance(0.5) ? undefined : random.choose([30, 200, 1_000])
  return { ...policyLawOf(random, leaseMs), leaseMs, refusalsMs, maxKeys: random.choose([1, 2, 100]) }
}

function policyLawOf(random, leaseMs) {
  const limit = random.whole(10, 200)
  const burst = Math.ceil((limit * (leaseMs ?? 0)) / 1_000) + random.whole(4, 60)
  const window = random.whole(300, 1_500)
  const choices = [
    { policy: gcra({ limit, period: '1s', burst }), burst, perMs: limit / 1_000 },
    {
      policy: tokenBucket({ capacity: burst, refill: { tokens: limit, every: '1s' } }),
      burst,
      perMs: limit / 1_000,
    },
    { policy: fixedWindow({ limit: burst, window: `${window}ms` }), limit: burst, window },
    { policy: slidingWindow({ limit: burst, window: `${window}ms` }), limit: burst, window },
  ]
  // Leases cannot be used with slidingWindow.
  return choices[random.whole(0, leaseMs === undefined ? 4 : 3)]
}

/** What a limiter of the law enforces. */
export function policiesOf({ policy, tokens }) {
  return tokens === undefined ? policy : { calls: policy, tokens: { ...tokens.policy, meter: 'tokens' } }
}

function faultOf(random, faultyMs) {
  const atMs = random.whole(1, faultyMs)
  const lastingMs = random.whole(1, 700)
  const server = random.whole(0, 2)
  const kind = random.choose([
    'cut',
    'cut',
    'lossy',
    'lossy',
    'partition',
    'freeze',
    'restart',
    'load',
    'busy',
    'full',
    'flushScripts',
    'failover',
    'stepClock',
    'pause',
    'kill',
  ])
  return { atMs, kind, lastingMs, server, keeps: random.chance(0.7), afterMs: random.whole(1, 200) }
}
