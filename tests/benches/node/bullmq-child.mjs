/**
 * A process with a worker, for `bullmq.mjs`. It reports the group, the time and the picks of each job that it runs, and
 * runs until it is killed.
 *
 * Arguments: what limits the jobs, the URL of Redis, the limit of each group per second, and that of the queue.
 */
import { Worker } from 'bullmq'
import { gcra, RateLimiter, RedisStore } from 'tollgate'
import { rateLimited } from 'tollgate/bullmq'

const [limits, url, perGroup, perQueue] = process.argv.slice(2)

let ran = []
setInterval(() => {
  process.send(ran)
  ran = []
}, 100)

async function processor({ data, attemptsStarted }) {
  ran.push([data.group, Date.now(), attemptsStarted])
}

function limited() {
  const policy = gcra({ limit: Number(perGroup), period: '1s' })
  const limiter = new RateLimiter(policy, { store: new RedisStore(url), prefix: 'jobs' })
  return rateLimited(processor, { limiter, key: (job) => job.data.group })
}

const worker = new Worker('jobs', limits === 'tollgate' ? limited() : processor, {
  connection: { url, maxRetriesPerRequest: null },
  concurrency: 20,
  ...(limits === 'limiter' && { limiter: { max: Number(perQueue), duration: 1_000 } }),
})
await worker.waitUntilReady()
