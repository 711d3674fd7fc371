/**
 * A process that calls a server which limits its callers, for `outgoing.mjs`. It makes all its calls at
 * once, reports when the last one has ended, and then ends.
 *
 * Arguments: the name of the library, the name of the limit, the URLs of the server and of Redis, and the
 * first and last number of its calls.
 */
import Bottleneck from 'bottleneck'
import PQueue from 'p-queue'
import pThrottle from 'p-throttle'
import { concurrency, gcra, RateLimiter, RedisStore } from 'tollgate'
import { OutgoingClient } from 'tollgate/client'
import { LIMITS, PROCESSES } from './outgoing-limits.mjs'

const [library, limitName, serverUrl, redisUrl, first, last] = process.argv.slice(2)
const { perSecond, atATime } = LIMITS[limitName]

const send = (number) => fetch(`${serverUrl}/${number}`)

/** A refusal: the time that the server names, in milliseconds. */
class Refused extends Error {
  constructor(response) {
    super(`status ${response.status}`)
    this.delayMs = Number(response.headers.get('retry-after')) * 1_000
  }
}

async function sendOrThrow(number) {
  const response = await send(number)
  if (response.status !== 200) throw new Refused(response)
}

/** Half a second after a lost connection, as the client of tollgate does at first. */
const retryDelayOf = ({ delayMs = 500 }) => delayMs

/** Schedules a call again after each failure, as the pages of the libraries without retries show. */
function repeating(schedule) {
  return async function call(number) {
    try {
      await schedule(() => sendOrThrow(number))
    } catch (error) {
      await new Promise((resolve) => setTimeout(resolve, retryDelayOf(error)))
      return call(number)
    }
  }
}

/** Each returns a function that makes one call, and one that frees what it holds. */
const LIBRARIES = {
  tollgate() {
    const store = new RedisStore(redisUrl)
    const policy =
      perSecond === undefined
        ? concurrency({ limit: atATime, ttl: '10s' })
        : gcra({ limit: perSecond, period: '1s', burst: 1 })
    const limiter = new RateLimiter(policy, { store, prefix: 'outgoing' })
    const api = new OutgoingClient({ limiter, key: 'server', maxQueued: 10_000, retries: 10 })
    return { call: (number) => api.fetch(`${serverUrl}/${number}`), close: () => store.close() }
  },
  bottleneck() {
    const { hostname: host, port } = new URL(redisUrl)
    const limiter = new Bottleneck({
      id: `outgoing-${limitName}`,
      datastore: 'ioredis',
      clientOptions: { host, port: Number(port) },
      ...(perSecond === undefined ? { maxConcurrent: atATime } : { minTime: 1_000 / perSecond }),
    })
    limiter.on('failed', retryDelayOf)
    return { call: (number) => limiter.schedule(() => sendOrThrow(number)), close: () => limiter.disconnect() }
  },
  'p-throttle'() {
    // It has no limit of calls at a time.
    const throttle = pThrottle({ limit: Math.floor(perSecond / PROCESSES), interval: 1_000 })
    return { call: repeating(throttle((run) => run())), close: () => {} }
  },
  'p-queue'() {
    const options =
      perSecond === undefined
        ? { concurrency: Math.floor(atATime / PROCESSES) }
        : { intervalCap: Math.floor(perSecond / PROCESSES), interval: 1_000 }
    const queue = new PQueue(options)
    return { call: repeating((run) => queue.add(run)), close: () => {} }
  },
}

const { call, close } = LIBRARIES[library]()
process.send('ready')
process.once('message', async () => {
  const calls = []
  for (let number = Number(first); number <= Number(last); number++) calls.push(call(number))
  const failed = (await Promise.allSettled(calls)).filter(({ status }) => status === 'rejected')
  process.send({ failed: failed.length, why: String(failed[0]?.reason) })
  await close()
  process.disconnect()
})
