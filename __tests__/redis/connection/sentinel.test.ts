/** A master watched by sentinels: found, lost, replaced. */

import { setTimeout as sleep } from 'node:timers/promises'
import { fixedWindow, RateLimiter, RedisStore, type RedisStoreOptions } from '../../../ts/index.js'
import type { RedisServer } from '../../servers/redis-server.js'
import { SentinelGroup, type SentinelGroupOptions } from '../../servers/sentinel.js'
import { until } from '../../servers/until.js'
import { outcome, recovery } from '../help.js'

const POLICY = fixedWindow({ limit: 1_000_000, window: '1d' })
const TIMEOUT_MS = 300
/** The tolerance for a busy machine beyond a deadline. `npm run chaos` measures exactly. */
const GRACE_MS = 1_000

function optionsFor(group: SentinelGroup, more: Partial<RedisStoreOptions> = {}): RedisStoreOptions {
  const nodes = group.sentinels.map(({ port }) => `127.0.0.1:${port}`)
  return { sentinel: { nodes, name: group.name }, commandTimeoutMs: TIMEOUT_MS, ...more }
}

async function grouped(
  run: (group: SentinelGroup, limiter: RateLimiter, store: RedisStore) => Promise<void>,
  options: SentinelGroupOptions = {},
): Promise<void> {
  await using group = await SentinelGroup.start(options)
  await using store = new RedisStore(optionsFor(group))
  const limiter = new RateLimiter(POLICY, { store, prefix: 'sentinel' })
  await until('the master is found', () => limiter.ready().then(() => true))
  await run(group, limiter, store)
}

/** Calls continuously until it is stopped; no call takes longer than its deadline. */
async function callsUntil(limiter: RateLimiter, isOver: () => boolean): Promise<number> {
  let admitted = 0
  while (!isOver()) {
    const { decision, error, ms } = await outcome(limiter.take('busy'))
    expect(ms).toBeLessThan(TIMEOUT_MS + GRACE_MS)
    if (error !== undefined) {
      expect(error.code).toMatch(/^STORE_(UNAVAILABLE|TIMEOUT)$/)
      await sleep(5)
    }
    admitted += decision?.allowed ? 1 : 0
  }
  return admitted
}

test('the sentinels report the master, and one that answers is enough', async () => {
  await grouped(async (group, limiter, store) => {
    const master = await group.master()
    expect(store.status()).toMatchObject({ state: 'up', address: `127.0.0.1:${master.port}` })
    expect((await limiter.take('key')).remaining).toBe(POLICY.limit - 1)
    const [first, second, third] = group.sentinels as [RedisServer, RedisServer, RedisServer]
    await first.kill()
    second.freeze()
    const nodes = [first, second, third].map(({ port }) => ({ host: 'localhost', port }))
    await using late = new RedisStore({ sentinel: { nodes, name: group.name }, commandTimeoutMs: 5_000 })
    const decision = await new RateLimiter(POLICY, { store: late, prefix: 'sentinel' }).take('key')
    expect(decision.remaining).toBe(POLICY.limit - 2)
  })
})

test('passwords of sentinels and of servers are separate', async () => {
  await using group = await SentinelGroup.start({ password: 'of-servers', sentinelPassword: 'of-sentinels' })
  const { sentinel } = optionsFor(group)
  const nodes = sentinel?.nodes ?? []
  const name = group.name
  const takeOne = async (options: RedisStoreOptions) => {
    await using store = new RedisStore({ commandTimeoutMs: 1_000, ...options })
    return outcome(new RateLimiter(POLICY, { store, prefix: 'sentinel' }).take('key'))
  }
  const right = { sentinel: { nodes, name, password: 'of-sentinels' }, password: 'of-servers' }
  expect((await takeOne(right)).error).toBeUndefined()
  const failures = [
    await takeOne({ ...right, password: 'of-sentinels' }),
    await takeOne({ ...right, sentinel: { nodes, name } }),
    await takeOne({ ...right, sentinel: { nodes, name, password: 'of-servers' } }),
    await takeOne({ ...right, sentinel: { ...right.sentinel, name: 'other' } }),
  ]
  for (const { error } of failures) {
    expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', charged: false })
    expect(error?.message).not.toMatch(/of-(servers|sentinels)/)
  }
  expect(failures[3]?.error?.message).toContain('watch no master "other"')
})

describe.each(['kill', 'freeze'] as const)('a master that is lost by %s', (how) => {
  test('is replaced by the elected one within a second', async () => {
    await grouped(async (group, limiter, store) => {
      const events: string[] = []
      store.on('down', () => events.push('down'))
      store.on('up', ({ address }) => events.push(`up ${address}`))
      const before = await group.master()
      let isOver = false
      const calling = callsUntil(limiter, () => isOver)
      await sleep(200)
      await before[how]()
      const after = await group.newMaster(before)
      expect(await recovery(limiter, 'key')).toBeLessThan(1_000)
      expect(store.status()).toMatchObject({ state: 'up', address: `127.0.0.1:${after.port}` })
      isOver = true
      expect(await calling).toBeGreaterThan(0)
      expect(events).toEqual(['down', `up 127.0.0.1:${after.port}`])
    })
  })
})

test('a running master that is demoted is left for the new one', async () => {
  await grouped(async (group, limiter, store) => {
    const before = await group.master()
    await group.sentinels[0]?.command('SENTINEL', 'FAILOVER', group.name)
    const after = await group.newMaster(before)
    expect(await recovery(limiter, 'key')).toBeLessThan(1_000)
    const deadline = performance.now() + 2_000
    while (store.status().address !== `127.0.0.1:${after.port}` && performance.now() < deadline) {
      await sleep(10)
    }
    expect(store.status()).toMatchObject({ state: 'up', address: `127.0.0.1:${after.port}` })
    expect((await outcome(limiter.take('key'))).error).toBeUndefined()
  })
})
