/** Waits, reservations and permits: calls that hold something for a while. */
import { setTimeout as sleep } from 'node:timers/promises'
import { concurrency, fixedWindow, gcra, RateLimiter } from 'tollgate'
import type { Activity, Bench } from './activity.js'

const MAX_WAIT_MS = 1_000

/** Slots of a shared pace, of which some are given up. */
export function waits(bench: Bench): Activity[] {
  const { store, calls } = bench
  const pacer = new RateLimiter(gcra({ limit: 10, period: '1s', burst: 1 }), { store, prefix: 'waits' })
  const kind = bench.kind('wait', MAX_WAIT_MS, ['WAIT_TOO_LONG', 'ABORTED', 'CLOSED'])
  // Calls must remove their listeners from a signal that outlives them.
  const { signal } = new AbortController()
  return Array.from({ length: 3 }, (_, caller) => ({
    everyMs: 300,
    run: async () => {
      const aborts = bench.random() < 0.3 ? AbortSignal.timeout(bench.below(200)) : signal
      await calls.make(kind, () => pacer.wait('paced', { maxWait: MAX_WAIT_MS, signal: aborts }))
    },
    ...(caller === 0 ? { close: () => pacer.close() } : {}),
  }))
}

/** Reservations that are committed, cancelled, extended, settled by their id, or left to expire. */
export function reservations(bench: Bench): Activity[] {
  const { store, calls } = bench
  const limiter = new RateLimiter(
    { minute: gcra({ limit: 100, period: '1s' }), window: fixedWindow({ limit: 200, window: '2s' }) },
    { store, prefix: 'reservations' },
  )
  const settle = bench.kind('settle')
  return [
    {
      everyMs: 300,
      run: async () => {
        const key = bench.key()
        const reservation = await calls.make(bench.kind('reserve'), () => limiter.reserve(key, 4, { ttl: '2s' }))
        if (!reservation?.allowed) {
          return
        }
        switch (bench.below(5)) {
          case 0:
            await calls.make(settle, () => reservation.commit(2))
            break
          case 1:
            await calls.make(settle, () => reservation.cancel())
            break
          case 2:
            await calls.make(bench.kind('extend'), () => reservation.extend(2))
            await calls.make(bench.kind('renew'), () => reservation.renew('3s'))
            await calls.make(settle, () => reservation.commit(8))
            break
          case 3:
            await calls.make(settle, () => limiter.settle(reservation.id, 3))
            break
          default:
          // It expires.
        }
      },
      close: () => limiter.close(),
    },
  ]
}

/** Permits that are released, kept until they are renewed, or lost with an outage. */
export function permits(bench: Bench): Activity[] {
  const { store, calls } = bench
  const limiter = new RateLimiter(concurrency({ limit: 4, ttl: '2s' }), { store, prefix: 'permits' })
  const kind = bench.kind('acquire', MAX_WAIT_MS, ['PERMIT_LOST', 'ABORTED', 'CLOSED'])
  const { signal } = new AbortController()
  return Array.from({ length: 3 }, (_, caller) => ({
    everyMs: 300,
    run: async () => {
      const aborts = bench.random() < 0.2 ? AbortSignal.timeout(bench.below(200)) : signal
      const options = { maxWait: MAX_WAIT_MS, signal: aborts }
      const permit = await calls.make(kind, () => limiter.acquire('pool', options))
      if (permit?.allowed) {
        await sleep(bench.random() < 0.1 ? 1_500 : bench.below(100))
        await calls.make(bench.kind('release'), () => permit.release())
      }
    },
    ...(caller === 0 ? { close: () => limiter.close() } : {}),
  }))
}
