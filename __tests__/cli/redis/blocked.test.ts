/** `tollgate-cli blocked` lists every block and every ban, also when nothing else is stored. */
import { spawnSync } from 'node:child_process'
import type { BlockedKeys } from '../../../ts/cli/redis/blocked-keys.js'
import { fixedWindow, gcra, RateLimiter, RedisStore } from '../../../ts/index.js'
import { openedRedis } from '../../redis/opened.js'
import { RedisCluster } from '../../servers/cluster.js'
import { tollgate } from '../command.js'
import { commandsOf, expectQuiet, expectReading, json } from './server.js'

const redis = openedRedis()

function blocked(prefix: string, ...more: string[]): string[] {
  return ['blocked', redis.server.url, '--prefix', prefix, ...more]
}

const DRAINED = gcra({ limit: 1_000, period: '1s' })

test('blocks and bans are listed after the states have drained, with kind, step and end', async () => {
  const ban = { after: 1, for: ['2h', '3h'], ttl: '1d' } as const
  await using limiter = new RateLimiter(fixedWindow({ limit: 1, window: '10ms' }), {
    store: redis.store,
    prefix: 'api',
    ban,
  })
  await limiter.block('operator', '1h')
  for (let step = 1; step <= 2; step++) {
    while (!(await limiter.take('twice', 1)).status.startsWith('blocked')) {}
    if (step === 1) {
      await limiter.unblock('twice')
    }
  }
  while (!(await limiter.take('once', 1)).status.startsWith('blocked')) {}
  await limiter.block('ended', '1ms')
  await limiter.override('own', { limit: 5 }, { ttl: '1h' })
  const top = expectQuiet(await tollgate(['top', redis.server.url, '--prefix', 'api']))
  expect(top.stdout).toContain('3 blocked (tollgate-cli blocked lists them)')
  let list: (BlockedKeys & { code: number }) | undefined
  const commands = await commandsOf(redis.server, async () => {
    list = await json<BlockedKeys>(blocked('api'))
  })
  expectReading(commands)
  expect(list).toMatchObject({ code: 0, prefix: 'api', sample: { isComplete: true, scannedShare: 1 } })
  expect(list?.blocked).toEqual([
    {
      key: 'twice',
      policies: ['default'],
      kind: 'ban',
      step: 2,
      blockedForMs: expect.any(Number),
      until: expect.any(String),
    },
    {
      key: 'once',
      policies: ['default'],
      kind: 'ban',
      step: 1,
      blockedForMs: expect.any(Number),
      until: expect.any(String),
    },
    {
      key: 'operator',
      policies: ['default'],
      kind: 'block',
      blockedForMs: expect.any(Number),
      until: expect.any(String),
    },
  ])
  for (const [index, hours] of [3, 2, 1].entries()) {
    const { blockedForMs, until } = (list as BlockedKeys).blocked[index] as BlockedKeys['blocked'][number]
    expect(Math.abs(blockedForMs - hours * 3_600_000)).toBeLessThan(60_000)
    expect(Math.abs(Date.parse(until) - Date.now() - hours * 3_600_000)).toBeLessThan(60_000)
  }
  const { code, stdout } = expectQuiet(await tollgate(blocked('api')))
  expect(code).toBe(0)
  expect(stdout).toMatch(/^Blocked keys of api at 127\.0\.0\.1:\d+\n/)
  expect(stdout).toMatch(/^ +twice +ban 2 +(3 h|2 h 59 min \d+ s) +20\d\d-\S+ \S+ UTC +default$/m)
  expect(stdout).toMatch(/^ +operator +block +(1 h|59 min \d+ s) +20\d\d-\S+ \S+ UTC +default$/m)
  expect(stdout).toMatch(/: all keys; \d+ of this limiter, 3 blocked\.$/m)
})

test('a block under several policies is one entry, and its key can be pasted', async () => {
  const policies = {
    short: gcra({ limit: 5, period: '1s', per: 'ip' }),
    long: fixedWindow({ limit: 50, window: '1m', per: 'ip' }),
    account: fixedWindow({ limit: 50, window: '1m', per: 'user' }),
  }
  await using limiter = new RateLimiter(policies, { store: redis.store, prefix: 'login' })
  await limiter.block({ ip: '2001:db8::=1' }, '1h')
  await limiter.block({ user: 'ann\u001b[31m' }, '2h')
  const list = await json<BlockedKeys>(blocked('login'))
  expect(list.blocked).toMatchObject([
    { key: 'ann\u001b[31m', dimension: 'user', policies: ['account'] },
    { key: '2001:db8::=1', dimension: 'ip', policies: ['long', 'short'] },
  ])
  const { stdout } = expectQuiet(await tollgate(blocked('login')))
  expect(stdout).toContain("$'user=ann\\x1b[31m'")
  const [, pasted = ''] = /^ +(ip=\S+)/m.exec(stdout) ?? []
  expectQuiet(await tollgate(['unblock', redis.server.url, '--prefix', 'login', '--key', pasted]))
  expect((await json<BlockedKeys>(blocked('login'))).blocked).toHaveLength(1)
})

test('the keys of all kinds can be pasted into a shell', async () => {
  const policies = {
    all: fixedWindow({ limit: 50, window: '1m', per: 'global' }),
    account: fixedWindow({ limit: 50, window: '1m', per: 'user' }),
  }
  await using limiter = new RateLimiter(policies, { store: redis.store, prefix: 'paste' })
  const users = ['ann', 'global', "it's $(exit 9); a\\ b", '=ls', '~', 'Ünal']
  await limiter.take({ user: 'somebody' })
  await Promise.all(users.map((user) => limiter.block({ user }, '1h')))
  await limiter.block({ global: true }, '2h')
  const { stdout } = expectQuiet(await tollgate(blocked('paste')))
  const words = [...stdout.matchAll(/^ {2}(\S.*?) +block /gm)].map(([, word]) => word as string)
  expect(words).toHaveLength(users.length + 1)
  expect(words[0]).toBe('global')
  for (const word of words) {
    const shell = spawnSync('/bin/sh', ['-c', `printf %s ${word}`], { encoding: 'utf8' })
    expect(shell).toMatchObject({ status: 0, stderr: '' })
    const unblock = ['unblock', redis.server.url, '--prefix', 'paste', '--key', shell.stdout]
    expect(expectQuiet(await tollgate(unblock))).toMatchObject({ code: 0 })
  }
  expect((await json<BlockedKeys>(blocked('paste'))).blocked).toEqual([])
  const top = expectQuiet(await tollgate(['top', redis.server.url, '--prefix', 'paste']))
  expect(top.stdout).toMatch(/ global$/m)
})

test('without the registration, and under tags, blocks are listed, too', async () => {
  await using limiter = new RateLimiter(DRAINED, { store: redis.store, prefix: 'tagged', tag: 'tenant' })
  await limiter.block('ann', '1h')
  await redis.server.command('DEL', 'tagged:~policies')
  expect(await json(blocked('tagged'))).toMatchObject({
    code: 0,
    blocked: [{ key: 'ann', tag: 'tenant', kind: 'block' }],
  })
})

test('it exits with 1 if no key is blocked, and names other prefixes if the prefix has no keys', async () => {
  await using limiter = new RateLimiter(fixedWindow({ limit: 5, window: '1d' }), { store: redis.store, prefix: 'free' })
  await limiter.take('ann')
  expect(await json(blocked('free'))).toMatchObject({ code: 1, blocked: [] })
  expect(expectQuiet(await tollgate(blocked('free'))).stdout).toContain('no key is blocked')
  const typo = expectQuiet(await tollgate(blocked('fere')))
  expect(typo).toMatchObject({ code: 1, stdout: expect.stringMatching(/has the prefix fere, these have keys: .*free/) })
})

test('--sample and --for end the scan, and the scanned share is shown', async () => {
  await using limiter = new RateLimiter(DRAINED, { store: redis.store, prefix: 'many' })
  await Promise.all(Array.from({ length: 5_000 }, (_, at) => limiter.block(`user:${at}`, '1h')))
  expect((await json<BlockedKeys>(blocked('many'))).blocked).toHaveLength(5_000)
  for (const bound of [
    ['--sample', '1000'],
    ['--for', '1ms'],
  ]) {
    const { sample, blocked: some } = await json<BlockedKeys>(blocked('many', ...bound))
    expect(sample.isComplete).toBe(false)
    expect(some.length).toBeGreaterThan(500)
    expect(some.length).toBeLessThan(5_000)
    expect(sample.scannedShare).toBeLessThan(1)
  }
})

test('over a cluster, from all masters', async () => {
  await using cluster = await RedisCluster.start()
  const [{ url, port }] = cluster.nodes as unknown as [{ url: string; port: number }]
  await using store = new RedisStore({ cluster: { nodes: [`127.0.0.1:${port}`] } })
  await using limiter = new RateLimiter(DRAINED, { store, prefix: 'shop' })
  const keys = Array.from({ length: 30 }, (_, at) => `user:${at}`).sort()
  await Promise.all(keys.map((key) => limiter.block(key, '1h')))
  const list = await json<BlockedKeys>(['blocked', url, '--prefix', 'shop'])
  expect(list.blocked.map(({ key }) => key).sort()).toEqual(keys)
  expect(list.server).toMatch(/^cluster of /)
})
