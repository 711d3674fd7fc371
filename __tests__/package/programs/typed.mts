// A strict TypeScript program in ECMAScript modules.
import {
  type Decision,
  type EmbeddedRateLimiter,
  fixedWindow,
  gcra,
  type RateLimiter as Limiter,
  MemoryStore,
  RateLimiter,
  TollgateError,
  type TollgateErrorCode,
  tokenBucket,
} from 'tollgate'

// The program has no Node types: the package's types must not need them.
declare const console: { log(text: string): void }

const store = new MemoryStore({ clock: () => 1_700_000_000_000 })
const smooth: EmbeddedRateLimiter = new RateLimiter(gcra({ limit: 10, period: '1s', burst: 3 }), {
  store,
  prefix: 'smooth',
})
const once = new RateLimiter(fixedWindow({ limit: 1, window: '1m' }), { store, prefix: 'once' })
const bucket = new RateLimiter(tokenBucket({ capacity: 5, refill: { tokens: 1, every: '1s' } }), { store, prefix: 'b' })

const { status, remaining } = await smooth.take('user:42')
const last: Decision = once.takeSync('user:42')
await bucket.take('user:42', { cost: 5 })
const refused = await bucket.take('user:42')
const retryAfterMs = refused.status === 'refused' ? wholeMillis(refused.retryAfterMs) : undefined

console.log(
  JSON.stringify({
    smooth: { status, remaining },
    once: last.status,
    bucket: { retryAfterMs },
    error: await codeOf(smooth),
  }),
)

/** Takes no null: the decision's type has to be narrowed by its status. */
function wholeMillis(millis: number): number {
  return millis
}

async function codeOf(limiter: Limiter): Promise<TollgateErrorCode | undefined> {
  try {
    await limiter.take('')
  } catch (error) {
    if (TollgateError.is(error)) return error.code
  }
  return undefined
}
