// A strict TypeScript program in CommonJS.
import { type Decision, fixedWindow, gcra, MemoryStore, RateLimiter, TollgateError, tokenBucket } from 'tollgate'

// The program has no Node types: the package's types must not need them.
declare const console: { log(text: string): void }

async function main(): Promise<void> {
  const store = new MemoryStore({ clock: () => 1_700_000_000_000 })
  await using smooth = new RateLimiter(gcra({ limit: 10, period: '1s', burst: 3 }), { store, prefix: 'smooth' })
  const once = new RateLimiter(fixedWindow({ limit: 1, window: '1m' }), { store, prefix: 'once' })
  const bucket = new RateLimiter(tokenBucket({ capacity: 5, refill: { tokens: 1, every: '1s' } }), {
    store,
    prefix: 'b',
  })

  const { status, remaining } = await smooth.take('user:42')
  const last: Decision = once.takeSync('user:42')
  await bucket.take('user:42', 5)
  const { retryAfterMs } = await bucket.take('user:42')
  const error: unknown = await smooth.take('').catch((reason: unknown) => reason)

  console.log(
    JSON.stringify({
      smooth: { status, remaining },
      once: last.status,
      bucket: { retryAfterMs },
      error: TollgateError.is(error) ? error.code : undefined,
    }),
  )
}

void main()
