/**
 * bottleneck with clustering: https://github.com/SGrondin/bottleneck#clustering (an `id`, an `expiration` of each
 * job, an `error` listener), #reservoir-intervals and #group. It queues jobs by default. So that a job is refused
 * instead, the queue has no places: #strategies, `highWater: 0` with `OVERFLOW`.
 */
import Bottleneck from 'bottleneck'
import { Redis } from 'ioredis'

/** @type {import('./all.mjs').Contender} */
export const contender = {
  title: 'bottleneck, clustering',
  packages: ['bottleneck', 'ioredis'],
  unsupported: { subSecond: 'with clustering, refresh intervals are multiples of 5 s' },
  async open({ port, limit, windowMs, hold }) {
    const group = new Bottleneck.Group({
      id: 'faults',
      datastore: 'ioredis',
      clientOptions: { host: '127.0.0.1', port },
      Redis,
      highWater: 0,
      strategy: Bottleneck.strategy.OVERFLOW,
      ...(hold
        ? { maxConcurrent: hold.limit }
        : { reservoir: limit, reservoirRefreshAmount: limit, reservoirRefreshInterval: windowMs }),
    })
    group.on('error', () => {})
    group.on('created', (limiter) => limiter.on('error', () => {}))
    return {
      take: (key, cost) => decided(group.key(key).schedule({ weight: cost, expiration: 5_000 }, async () => {})),
      hold: (key) =>
        new Promise((resolve, reject) => {
          const work = () => {
            resolve({ allowed: true })
            return new Promise(() => {})
          }
          decided(group.key(key).schedule({ expiration: hold.ttlMs }, work)).then(resolve, reject)
        }),
    }
  },
}

async function decided(job) {
  try {
    await job
    return { allowed: true }
  } catch (error) {
    if (/dropped/.test(error.message)) return { allowed: false }
    throw error
  }
}
