/** Commands that match nothing in Redis report that, and change nothing. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { KeyInspection } from '../../../ts/cli/redis/inspect.js'
import { fixedWindow, gcra, RateLimiter, RedisStore, slidingWindow } from '../../../ts/index.js'
import { openedRedis } from '../../redis/opened.js'
import { RedisCluster } from '../../servers/cluster.js'
import { tollgate } from '../command.js'
import { commandsOf, expectQuiet, expectReading, json } from './server.js'

const redis = openedRedis()
const folder = mkdtempSync(join(tmpdir(), 'tollgate-unused-'))

const FIXED = 'fixedWindow limit=20 window=20d'
const GCRA = 'gcra limit=20 period=20d'

/** Commands that change a key, without the key. */
const CHANGES = ['block --for 10m', 'unblock', 'reset', 'override --for 10m --numbers limit=5', 'clear-override']

afterAll(() => rmSync(folder, { recursive: true }))

function limiterOf(prefix: string) {
  return new RateLimiter(fixedWindow({ limit: 20, window: '20d' }), { store: redis.store, prefix })
}

/** The arguments of a command on a key. */
function words(line: string, prefix: string, key: string, ...more: string[]): string[] {
  const [command = '', ...rest] = line.split(' ')
  return [command, redis.server.url, '--prefix', prefix, '--key', key, ...more, ...rest]
}

/** Expects that a command is refused, and has changed nothing. */
async function expectRefused(line: readonly string[], complaint: RegExp): Promise<void> {
  const commands = await commandsOf(redis.server, async () => {
    const { code, stdout, stderr } = await tollgate(line)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(complaint)
    expect(stderr.trim().split('\n').length).toBeLessThan(3)
  })
  expectReading(commands)
}

beforeAll(async () => {
  await limiterOf('shop').takeMany(['ann', 'bob'])
  await limiterOf('login').take('ann')
})

test.each(CHANGES)("%s with another algorithm than the key's is refused", async (line) => {
  const complaint =
    /^tollgate: nothing was done: ann has state under default \(fixedWindow\), and none under default \(gcra\); give the limiter's own --policy/
  await expectRefused(words(line, 'shop', 'ann', '--policy', GCRA), complaint)
  expect(await limiterOf('shop').peek('ann')).toMatchObject({ status: 'allowed', remaining: 19 })
})

test.each(CHANGES)("%s of a new key with another algorithm than the prefix's is refused", async (line) => {
  const complaint =
    /^tollgate: nothing was done: the keys of shop belong to default \(fixedWindow\), and none to default \(gcra\); give the limiter's own --policy/
  await expectRefused(words(line, 'shop', 'nobody', '--policy', GCRA), complaint)
})

test.each(CHANGES)(
  '%s under a prefix without keys is refused, and the error names the existing prefixes',
  async (line) => {
    const complaint =
      /^tollgate: nothing was done: no key at 127\.0\.0\.1:\d+ has the prefix shpo, these have keys: .*\blogin\b.*\bshop\b.*; correct --prefix, or --force /
    await expectRefused(words(line, 'shpo', 'ann', '--policy', FIXED), complaint)
  },
)

test('other layouts and policy names are reported, too', async () => {
  const policy = slidingWindow({ limit: 20, window: '20d', layout: 'hash' })
  await using limiter = new RateLimiter(policy, { store: redis.store, prefix: 'hash' })
  await limiter.take('ann')
  const list = 'slidingWindow limit=20 window=20d'
  const complaint = /ann has state under default \(slidingWindow, hash\), and none under default \(slidingWindow\); /
  await expectRefused(words('unblock', 'hash', 'ann', '--policy', list), complaint)
  const file = join(folder, 'several.json')
  writeFileSync(file, JSON.stringify({ short: FIXED, long: FIXED }))
  const names =
    /the keys of shop belong to default \(fixedWindow\), and none to long \(fixedWindow\) and short \(fixedW/
  await expectRefused(words('reset', 'shop', 'ann', '--policies', file), names)
})

test('--force changes a key before its limiter has been used', async () => {
  const line = words('block --for 10m', 'early', 'mallory', '--policy', FIXED)
  await expectRefused(line, /has the prefix early, /)
  const { code, stdout } = expectQuiet(await tollgate([...line, '--force']))
  expect({ code, first: stdout.split('\n')[0] }).toEqual({ code: 0, first: 'mallory has been blocked for 10 min' })
  expect(await limiterOf('early').take('mallory')).toMatchObject({ status: 'blocked' })
})

test('a new key can be changed under a prefix that uses the policy', async () => {
  expect(await tollgate(words('block --for 10m', 'shop', 'carol', '--policy', FIXED))).toMatchObject({ code: 0 })
  expect(await limiterOf('shop').take('carol')).toMatchObject({ status: 'blocked' })
})

test('during a migration between algorithms keys of both can be changed', async () => {
  await using old = new RateLimiter(gcra({ limit: 20, period: '20d' }), { store: redis.store, prefix: 'both' })
  await old.take('ann')
  await old.close()
  await using now = limiterOf('both')
  await now.takeMany(['ann', 'bob'])
  for (const key of ['ann', 'bob', 'new']) {
    expect(await tollgate(words('block --for 10m', 'both', key, '--policy', FIXED))).toMatchObject({ code: 0 })
    expect(await now.take(key)).toMatchObject({ status: 'blocked' })
  }
})

test('a scan that ends before it finds the prefix is reported', async () => {
  await limiterOf('many').takeMany(Array.from({ length: 5_000 }, (_, at) => `user:${at}`))
  const line = words('unblock', 'shpo', 'ann', '--policy', FIXED, '--scan', '1ms')
  const complaint = /none of the scanned keys at 127\.0\.0\.1:\d+ has the prefix shpo, .*increase --scan/
  await expectRefused(line, complaint)
})

test.each([
  ['unblock', 'was not blocked'],
  ['clear-override', 'had no override'],
  ['reset', 'was already fresh'],
])('%s reports that it changes nothing', async (line, what) => {
  for (const more of [[], ['--dry-run']]) {
    const { code, stdout } = expectQuiet(await tollgate(words(line, 'shop', 'dave', '--policy', FIXED, ...more)))
    expect({ code, first: stdout.split('\n')[0] }).toEqual({ code: 1, first: `dave ${what}` })
  }
  const result = await json<{ isDone: boolean }>(words(line, 'shop', 'dave', '--policy', FIXED))
  expect(result).toMatchObject({ code: 1, isDone: false })
})

test('inspect reports a prefix without keys, and one with keys of another algorithm', async () => {
  const none = /^Note: no key at 127\.0\.0\.1:\d+ has the prefix shpo, these have keys: .*\bshop\b/m
  for (const more of [[], ['--policy', FIXED]]) {
    const { code, stdout } = expectQuiet(await tollgate(words('inspect', 'shpo', 'ann', ...more)))
    expect(code).toBe(1)
    expect(stdout).toMatch(none)
  }
  const other = expectQuiet(await tollgate(words('inspect', 'shop', 'erin', '--policy', GCRA)))
  expect(other.code).toBe(1)
  expect(other.stdout).toContain('Note: the keys of shop belong to default (fixedWindow), and none to default (gcra)\n')
  const right = expectQuiet(await tollgate(words('inspect', 'shop', 'erin', '--policy', FIXED)))
  expect(right).toMatchObject({ code: 1, stdout: expect.not.stringContaining('Note') })
  const result = await json<KeyInspection>(words('inspect', 'shpo', 'ann'))
  expect(result.usage).toMatchObject({ policies: [], isComplete: true })
  expect(result.usage?.prefixes).toEqual(expect.arrayContaining(['login', 'shop']))
  const names = await tollgate(words('inspect', 'shop', 'ann', '--name', 'x', '--policy', FIXED))
  expect(names).toMatchObject({ code: 2, stderr: expect.stringMatching(/^tollgate: --name and --policy .*exclude/) })
})

test('top reports a prefix without keys, and one without keys of the given policy', async () => {
  const top = (prefix: string, ...more: string[]) => tollgate(['top', redis.server.url, '--prefix', prefix, ...more])
  const none = expectQuiet(await top('shpo'))
  expect(none.code).toBe(1)
  expect(none.stdout).toMatch(/^Note: no key at 127\.0\.0\.1:\d+ has the prefix shpo, these have keys: .*\bshop\b/m)
  const other = expectQuiet(await top('login', '--policy', GCRA))
  expect(other.stdout).toContain('Note: none of these keys belongs to default (gcra), the given policy\n')
  expect(expectQuiet(await top('login', '--policy', FIXED)).stdout).not.toContain('Note')
})

test('--cluster-tags is refused outside a cluster', async () => {
  const complaint = /^tollgate: --cluster-tags is for a cluster, which 127\.0\.0\.1:\d+ is not: leave it out\n$/
  await expectRefused(words('unblock', 'shop', 'ann', '--policy', FIXED, '--cluster-tags', '5'), complaint)
})

test("a key with another hash tag than the limiter's keys is refused", async () => {
  await using limiter = new RateLimiter(fixedWindow({ limit: 20, window: '20d' }), {
    store: redis.store,
    prefix: 'tagged',
    tag: 'tenant',
  })
  await limiter.take('ann')
  const refused = /the keys of tagged have other hash tags than this key would have; give --tag, or --force/
  await expectRefused(words('block --for 10m', 'tagged', 'ann', '--policy', FIXED), refused)
  const block = words('block --for 10m', 'tagged', 'ann', '--policy', FIXED, '--tag', 'tenant')
  expect(await tollgate(block)).toMatchObject({ code: 0 })
  expect(await limiter.take('ann')).toMatchObject({ status: 'blocked' })
  const tag = /the keys of shop have other hash tags than this key would have; omit --tag and --cluster-tags/
  await expectRefused(words('block --for 10m', 'shop', 'ann', '--policy', FIXED, '--tag', 'tenant'), tag)
})

test("on a cluster the store's tags must be given", async () => {
  await using cluster = await RedisCluster.start()
  const [{ url, port }] = cluster.nodes as unknown as [{ url: string; port: number }]
  await using store = new RedisStore({ cluster: { nodes: [`127.0.0.1:${port}`], tags: 5 } })
  await using limiter = new RateLimiter(fixedWindow({ limit: 20, window: '20d' }), { store, prefix: 'shop' })
  await limiter.takeMany(Array.from({ length: 30 }, (_, at) => `user:${at}`))
  const line = ['block', url, '--prefix', 'shop', '--key', 'user:7', '--policy', FIXED, '--for', '10m']
  const complaint = /the keys of shop have other hash tags than this key would have; give the store's --cluster-tags/
  expect(await tollgate(line)).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(complaint) })
  expect(await tollgate([...line, '--cluster-tags', '5'])).toMatchObject({ code: 0 })
  expect(await limiter.take('user:7')).toMatchObject({ status: 'blocked' })
})
