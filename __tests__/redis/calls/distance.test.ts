/** Flushes in flight: few to a near server, many to a distant one. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { RttEstimator } from '../../../ts/backends/redis/batching/rtt-estimator.js'
import { gcra, RateLimiter, RedisStore } from '../../../ts/index.js'
import { RedisServer } from '../../servers/redis-server.js'
import { TcpProxy } from '../../servers/tcp-proxy.js'
import { until } from '../../servers/until.js'
import { PATIENT_MS } from '../help.js'

describe('the flushes that keep a server busy', () => {
  function afterRttEstimator(alone: number, ...others: number[]): number {
    const rtt = new RttEstimator()
    rtt.add(alone, true)
    for (const milliseconds of others) {
      rtt.add(milliseconds, false)
    }
    return rtt.maxInFlight
  }

  it('are four before the first measurement', () => {
    expect(new RttEstimator().maxInFlight).toBe(4)
  })

  it.each([0.05, 0.1, 0.2])('are four on one machine: %d ms', (alone) => {
    expect(afterRttEstimator(alone, 0.5, 0.4, 0.6)).toBe(4)
  })

  it('are many at a distance', () => {
    expect(afterRttEstimator(20, 20.1, 20.3)).toBeCloseTo(400)
  })

  it('are still many if some round trips are late', () => {
    expect(afterRttEstimator(20, 20.2, 90, 25, 30)).toBeCloseTo(400)
  })

  it('become few when all round trips are late, because flushes wait for each other', () => {
    const late = Array.from({ length: 32 }, () => 60)
    expect(afterRttEstimator(20, ...late)).toBeCloseTo((4 * 60) / 40.2)
  })

  it('follow the distance once a flush is alone', () => {
    const rtt = new RttEstimator()
    rtt.add(1, true)
    rtt.add(20, false)
    expect(rtt.maxInFlight).toBeCloseTo(20)
    rtt.add(20, true)
    expect(rtt.maxInFlight).toBeCloseTo(400)
  })
})

it('calls to a distant server do not wait for the answers of others', async () => {
  const CALLS = 100
  const server = await RedisServer.start()
  const proxy = await TcpProxy.start(server)
  proxy.latencyMs = 75
  const store = new RedisStore({ url: proxy.url, commandTimeout: PATIENT_MS })
  const limiter = new RateLimiter(gcra({ limit: 1_000, period: '1h' }), { store, prefix: 'distant' })
  for (let times = 0; times < 3; times++) {
    await limiter.take('warm-up')
  }
  await server.command('CONFIG', 'RESETSTAT')
  proxy.hold('down')
  const calls: Promise<unknown>[] = []
  for (let number = 0; number < CALLS; number++) {
    calls.push(limiter.take(`user:${number}`))
    await nextTurn()
  }
  // They are sent before the first answer comes, each in a flush of its own. If flushes waited for answers, there
  // would be four.
  await until('more than eight flushes have arrived', async () => {
    const stats = String(await server.command('INFO', 'commandstats'))
    return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1]) > 8
  })
  proxy.release()
  await Promise.all(calls)
  await limiter.close()
  await store.close()
  await proxy.stop()
  await server.stop()
})
