/** A master watched by sentinels: found, lost, replaced. */

import { setTimeout as sleep } from 'node:timers/promises'
import { fixedWindow, RateLimiter, RedisStore, type RedisStoreOptions } from '../../../ts/index.js'
import type { RedisServer } from '../../servers/redis-server.js'
import { SentinelGroup } from '../../servers/sentinel.js'
import { TcpProxy } from '../../servers/tcp-proxy.js'
import { until } from '../../servers/until.js'
import { LATE_MS, outcome, PATIENT_MS, recovery } from '../help.js'

const POLICY = fixedWindow({ limit: 1_000_000, window: '1d' })
/** The deadline of calls that must fail, in milliseconds. */
const TIMEOUT_MS = 300

function optionsFor(group: SentinelGroup, more: Partial<RedisStoreOptions> = {}): RedisStoreOptions {
  const nodes = group.sentinels.map(({ port }) => `127.0.0.1:${port}`)
  return { sentinel: { nodes, name: group.name }, commandTimeout: TIMEOUT_MS, ...more }
}

async function grouped(
  run: (group: SentinelGroup, limiter: RateLimiter, store: RedisStore) => Promise<void>,
  options: Partial<RedisStoreOptions> = {},
): Promise<void> {
  await using group = await SentinelGroup.start()
  await using store = new RedisStore(optionsFor(group, options))
  const limiter = new RateLimiter(POLICY, { store, prefix: 'sentinel' })
  await until('the master is found', () => limiter.ready().then(() => true))
  await run(group, limiter, store)
}

/** Waits until a store is connected to a server. */
function reached(store: RedisStore, server: RedisServer): Promise<unknown> {
  return until('the store uses the new master', async () => {
    const { state, address } = store.status()
    return state === 'up' && address === `127.0.0.1:${server.port}`
  })
}

/** Calls continuously until it is stopped; each call settles by its deadline. */
async function callsUntil(limiter: RateLimiter, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    const { error, ms } = await outcome(limiter.take('busy'))
    expect(ms).toBeLessThan(TIMEOUT_MS + LATE_MS)
    if (error !== undefined) {
      expect(error.code).toMatch(/^STORE_(UNAVAILABLE|TIMEOUT)$/)
      await sleep(5)
    }
  }
}

test('the master is reached by the address of natMap', async () => {
  await grouped(async (group) => {
    const master = await group.master()
    await using proxy = await TcpProxy.start(master)
    const { sentinel } = optionsFor(group)
    const natMap = { [`127.0.0.1:${master.port}`]: `127.0.0.1:${proxy.port}` }
    await using mapped = new RedisStore({ sentinel: { ...sentinel, natMap } as never, commandTimeout: PATIENT_MS })
    const limiter = new RateLimiter(POLICY, { store: mapped, prefix: 'nat' })
    expect(await limiter.take('key')).toMatchObject({ allowed: true })
    expect(proxy.connections).toBe(1)
    expect(mapped.status()).toMatchObject({ address: `127.0.0.1:${proxy.port}` })
  })
})

test('the sentinels report the master, and one that answers is enough', async () => {
  await grouped(
    async (group, limiter, store) => {
      const master = await group.master()
      expect(store.status()).toMatchObject({ state: 'up', address: `127.0.0.1:${master.port}` })
      expect((await limiter.take('key')).remaining).toBe(POLICY.limit - 1)
      const [first, second, third] = group.sentinels as [RedisServer, RedisServer, RedisServer]
      await first.kill()
      second.freeze()
      const nodes = [first, second, third].map(({ port }) => ({ host: 'localhost', port }))
      await using late = new RedisStore({ sentinel: { nodes, name: group.name }, commandTimeout: PATIENT_MS })
      const decision = await new RateLimiter(POLICY, { store: late, prefix: 'sentinel' }).take('key')
      expect(decision.remaining).toBe(POLICY.limit - 2)
    },
    { commandTimeout: PATIENT_MS },
  )
})

test('passwords of sentinels and of servers are separate', async () => {
  await using group = await SentinelGroup.start({ password: 'of-servers', sentinelPassword: 'of-sentinels' })
  const { sentinel } = optionsFor(group)
  const nodes = sentinel?.nodes ?? []
  const name = group.name
  const right = { sentinel: { nodes, name, password: 'of-sentinels' }, password: 'of-servers' }
  await using store = new RedisStore({ ...right, commandTimeout: PATIENT_MS })
  expect((await outcome(new RateLimiter(POLICY, { store, prefix: 'sentinel' }).take('key'))).error).toBeUndefined()
  /** Expects that no call succeeds, and that soon one has the reason. */
  const expectRefused = async (options: RedisStoreOptions, why = /./) => {
    await using store = new RedisStore({ ...options, commandTimeout: TIMEOUT_MS })
    const limiter = new RateLimiter(POLICY, { store, prefix: 'sentinel' })
    await until(`a call fails because of ${why}`, async () => {
      const { error } = await outcome(limiter.take('key'))
      // On a busy machine, the deadline may pass before the engine tells its reason.
      expect(error?.code).toMatch(/^STORE_(UNAVAILABLE|TIMEOUT)$/)
      expect(error?.message).not.toMatch(/of-(servers|sentinels)/)
      return error?.code === 'STORE_UNAVAILABLE' && error.charged === false && why.test(error.message)
    })
  }
  await expectRefused({ ...right, password: 'of-sentinels' })
  await expectRefused({ ...right, sentinel: { nodes, name } })
  await expectRefused({ ...right, sentinel: { nodes, name, password: 'of-servers' } })
  await expectRefused({ ...right, sentinel: { ...right.sentinel, name: 'other' } }, /watch no master "other"/)
})

describe.each(['kill', 'freeze'] as const)('a master that is lost by %s', (how) => {
  test('is replaced by the elected one', async () => {
    await grouped(async (group, limiter, store) => {
      const events: string[] = []
      store.on('down', () => events.push('down'))
      store.on('up', ({ address }) => events.push(`up ${address}`))
      const before = await group.master()
      let isOver = false
      const calling = callsUntil(limiter, () => isOver)
      await recovery(limiter, 'ready')
      await before[how]()
      const after = await group.newMaster(before)
      await reached(store, after)
      await recovery(limiter, 'key')
      isOver = true
      await calling
      expect(events[0]).toBe('down')
      expect(events.filter((event) => event.startsWith('up'))).toContain(`up 127.0.0.1:${after.port}`)
    })
  })
})

test('a running master that is demoted is left for the new one', async () => {
  await grouped(async (group, limiter, store) => {
    const before = await group.master()
    await group.sentinels[0]?.command('SENTINEL', 'FAILOVER', group.name)
    const after = await group.newMaster(before)
    await reached(store, after)
    await recovery(limiter, 'key')
  })
})
