// A process with a worker whose jobs have limits by group. Prints a line for each job that begins, and that ends.
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
const { RateLimiter, RedisStore, ...policies } = require('../../../dist/index.js')
const { rateLimited } = require('../../../dist/bullmq/index.js')

const { version, url, limits, jobs = [], jobMs = 0, isVictim } = JSON.parse(process.argv[2])
const { Queue, Worker } = require(version)
const connection = { url, maxRetriesPerRequest: null }

const store = new RedisStore({ url, commandTimeout: 30_000 })
const limiter = new RateLimiter(
  Object.fromEntries(Object.entries(limits).map(([name, { make, ...options }]) => [name, policies[make](options)])),
  { store, prefix: 'jobs' },
)
const print = (line) => console.log(JSON.stringify(line))

const queue = new Queue('mail', { connection })
await queue.addBulk(
  jobs.flatMap(({ group, count, ...data }) =>
    Array.from({ length: count }, (_, index) => ({
      name: 'send',
      data: { group, fails: data.fails ?? 0 },
      opts: { jobId: `${group}-${index}`, attempts: 3 },
    })),
  ),
)
await queue.close()

async function send(job) {
  const { id, attemptsStarted: picks, attemptsMade, data } = job
  print({ begun: id, picks, group: data.group, at: Date.now() })
  await new Promise((resolve) => setTimeout(resolve, isVictim ? 3_600_000 : jobMs))
  print({ ended: id, group: data.group, at: Date.now() })
  if (attemptsMade < data.fails) throw new Error('not sent')
}

// A worker that is slow for a second keeps its jobs.
const lockDuration = isVictim ? 1_000 : 30_000
const options = { connection, concurrency: 5, lockDuration, stalledInterval: 500 }
const worker = new Worker('mail', rateLimited(send, { limiter, key: (job) => job.data.group }), options)
worker.on('completed', ({ id, attemptsMade }) => print({ completed: id, attemptsMade }))
worker.on('failed', (job, { message }) => print({ failed: job?.id, message }))
worker.on('error', () => {})

process.once('SIGTERM', async () => {
  await worker.close()
  await limiter.close()
  await store.close()
  process.exit()
})
