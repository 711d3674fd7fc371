/** The types of `tollgate/bullmq` suit those of BullMQ 5 and 6: `tsc` checks this file. */
import { type Job, type Processor, Worker } from 'bullmq'
import { type Job as Job5, type Processor as Processor5, Worker as Worker5 } from 'bullmq-5'
import { type LimitedJob, rateLimited } from '../../../ts/bullmq/index.js'
import { concurrency, fixedWindow, gcra, RateLimiter, tiers } from '../../../ts/index.js'

interface Mail {
  readonly customer: string
  readonly bytes: number
}

declare const job6: Job<Mail>
declare const job5: Job5<Mail>
export const jobs: readonly LimitedJob[] = [job6, job5]

const limiter = new RateLimiter({ rate: gcra({ limit: 5, period: '1s' }), atOnce: concurrency({ limit: 2 }) })
const connection = { host: 'localhost' }
declare const send: Processor<Mail, string>
declare const send5: Processor5<Mail, string>
export const workers = [
  new Worker('mail', rateLimited(send, { limiter, key: (job) => job.data.customer }), { connection }),
  new Worker5('mail', rateLimited(send5, { limiter, key: (job) => job.data.customer }), { connection }),
  new Worker<Mail>(
    'mail',
    rateLimited(async (job: Job<Mail>) => job.data, { limiter, key: 'all' }),
    { connection },
  ),
  new Worker(
    'mail',
    rateLimited(async (job: Job) => job.data.any, { limiter, key: (job) => job.data.customer }),
    {
      connection,
    },
  ),
]
export const processor: Processor<Mail, string> = rateLimited(send, { limiter, key: 'all' })
export const signalled = rateLimited(async (_job: Job, _token?: string, signal?: AbortSignal) => signal?.aborted, {
  limiter,
  key: 'all',
})

// The key, the tier and the cost have the types of the limiter.
const bytes = fixedWindow({ limit: 1_000, window: '1m', meter: 'bytes' })
rateLimited(send, { limiter: new RateLimiter(bytes), key: 'all', cost: (job) => ({ bytes: job.data.bytes }) })
// @ts-expect-error The limiter has no such meter.
rateLimited(send, { limiter: new RateLimiter(bytes), key: 'all', cost: () => ({ cents: 5 }) })
const tiered = new RateLimiter(tiers({ free: fixedWindow({ limit: 1, window: '1m' }) }))
rateLimited(send, { limiter: tiered, key: 'all', tier: 'free' })
// @ts-expect-error The limiter has no such tier.
rateLimited(send, { limiter: tiered, key: 'all', tier: 'gold' })
const keyed = new RateLimiter({
  a: gcra({ limit: 1, period: '1s', per: 'customer' }),
  b: gcra({ limit: 1, period: '1s', per: 'global' }),
})
rateLimited(send, { limiter: keyed, key: (job) => ({ customer: job.data.customer }) })
// @ts-expect-error The key has no such part.
rateLimited(send, { limiter: keyed, key: (job) => ({ user: job.data.customer }) })
