// Sends the same calls at given times to limiters of every algorithm, on any engine and runtime.

const STEPS = 160
const KEYS = ['a', 'ключ', '🔑\0']

/** Berlin's clocks go forward in the following night. */
const START = Date.UTC(2026, 2, 28, 12)

/**
 * The cases by name: the policies, the maximum units of a call, and the time between calls in
 * milliseconds.
 */
function casesOf({
  calendarWindow,
  fixedWindow,
  gcra,
  leakyBucket,
  slidingCounter,
  slidingLog,
  slidingWindow,
  tokenBucket,
}) {
  const refill = { tokens: 7, every: '1s' }
  const night = calendarWindow({ limit: 9, every: 'day', timeZone: 'Europe/Berlin' })
  return {
    gcra: [gcra({ limit: 1_001, period: '1s', burst: 12 }), 5, 4],
    tokenBucket: [tokenBucket({ capacity: 20, refill, initial: 3, debt: 9 }), 12, 900],
    interval: [tokenBucket({ capacity: 20, refill, refillMode: 'interval' }), 15, 500],
    leakyBucket: [leakyBucket({ capacity: 20, leak: { units: 3, every: '1s' } }), 9, 1_500],
    fixedWindow: [fixedWindow({ limit: 20, window: '1s', countRefused: true }), 6, 300],
    calendarWindow: [night, 4, 7_200_000],
    slidingWindow: [slidingWindow({ limit: 20, window: '1s', buckets: 7 }), 6, 200],
    slidingCounter: [slidingCounter({ limit: 30, window: '1s' }), 7, 150],
    slidingLog: [slidingLog({ limit: 20, window: '1s' }), 6, 200],
    'slidingLog-limits': [
      slidingLog({ limits: { fast: { limit: 6, window: '100ms' }, slow: { limit: 20, window: '1s' } } }),
      4,
      80,
    ],
    several: [{ fast: gcra({ limit: 10, period: '1s', burst: 4 }), night }, 3, 400],
  }
}

/** Deterministic numbers from 0 up to below 1 (mulberry32). */
function randomOf(seed) {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** All results by the limiter's name: whole decisions, and the code and message of failures. */
export async function answersOf(tollgate) {
  const answers = {}
  for (const [name, [policy, maxCost, apartMs]] of Object.entries(casesOf(tollgate))) {
    answers[name] = await traced(tollgate, policy, maxCost, apartMs)
  }
  return answers
}

async function traced({ MemoryStore, RateLimiter, TollgateError }, policy, maxCost, apartMs) {
  let nowUs = START * 1_000
  // A store with few keys has one shard. With more shards, hashes would determine the dropped keys.
  const store = new MemoryStore({ clock: () => nowUs / 1_000, maxKeys: 1_000 })
  const limiter = new RateLimiter(policy, { store })
  const random = randomOf(maxCost * 1_000 + apartMs)
  const whole = (from, to) => from + Math.floor(random() * (to - from + 1))
  let taken
  const step = async (kind, key, cost) => {
    switch (kind) {
      case 0:
        return limiter.peek(key, cost - 1)
      case 1:
        return taken === undefined ? 'none' : limiter.refund(taken, 1)
      case 2:
        return limiter.takeMany(KEYS.slice(0, cost), cost)
      case 3:
        return limiter.takeUpTo(key, cost)
      case 4:
        return (await limiter.penalize(key, cost)) ?? 'charged'
      case 5:
        return (await limiter.block(key, apartMs)) ?? 'blocked'
      case 6:
        return limiter.take(random() < 0.5 ? '' : 'x'.repeat(1_025), cost)
      case 7:
        return limiter.take(key, cost)
      default:
        return limiter.takeSync(key, cost)
    }
  }
  const answers = []
  for (let count = 0; count < STEPS; count++) {
    nowUs += random() < 0.5 ? 0 : whole(0, apartMs * 1_000)
    const [kind, key, cost] = [whole(0, 20), KEYS[whole(0, KEYS.length - 1)], whole(1, maxCost)]
    const answer = await step(kind, key, cost).catch((error) => {
      if (!TollgateError.is(error)) throw error
      return [error.code, error.message]
    })
    taken = answer.allowed ? answer : taken
    answers.push(answer)
  }
  return answers
}
