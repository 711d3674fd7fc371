/** docs/command-line.md lists exactly the fields that `--format json` of each command prints. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fixedWindow, gcra, RateLimiter, slidingCounter, slidingLog, tiers, tokenBucket } from '../../../ts/index.js'
import { pages } from '../../docs/pages.js'
import { anything } from '../../failure.js'
import { openedRedis } from '../../redis/opened.js'
import { until } from '../../servers/until.js'
import { json } from './server.js'

/** The fields of an output that the tests read. */
interface Output {
  readonly states?: readonly unknown[]
  readonly keys?: readonly unknown[]
  readonly usage?: unknown
  readonly isDone?: boolean
}

const redis = openedRedis()
const folder = mkdtempSync(join(tmpdir(), 'tollgate-json-'))

afterAll(() => rmSync(folder, { recursive: true }))

/** The documented fields by the heading of their table: `rate.units`, `keys[].share`. */
const documented = new Map<string, string[]>()
const section = pages.find(({ path }) => path === 'docs/command-line.md')?.text.split(/^## JSON output$/m)[1] ?? ''
for (const part of (section.split(/^## /m)[0] as string).split(/^### /m).slice(1)) {
  const heading = (part.split('\n')[0] as string).replaceAll('`', '')
  const cells = [...part.matchAll(/^\| (`.*?`) \|/gm)].map(([, cell]) => cell as string)
  const fields = cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, field]) => field as string))
  documented.set(heading, fields)
}

/** Fields whose content another page or the meaning in the table describes. */
const DESCRIBED = [
  'decision',
  'key',
  'override.numbers',
  'usage.policies',
  'policies[].policy',
  'policies[].byLimit',
  'policies[].worstMinute',
  'policies[].keys',
  'prefixes[].policies',
  'broken.first',
  'order.firstLate',
  'suggestions[].goal',
  'suggestions[].policy',
  'suggestions[].inGap',
  'peaks[].quantiles',
  'peaks[].limits',
  'peaks[].gap',
]

/** The fields of an output, without the contents of those that lead to another table. */
function fieldsOf(value: unknown, tables: readonly string[], path = ''): string[] {
  const isEnd = tables.includes(path) || DESCRIBED.includes(path)
  if (isEnd || typeof value !== 'object' || value === null) {
    return [path]
  }
  if (Array.isArray(value)) {
    const isOfObjects = value.some((one) => typeof one === 'object')
    return isOfObjects ? value.flatMap((one) => fieldsOf(one, tables, `${path}[]`)) : [path]
  }
  return Object.entries(value).flatMap(([name, inner]) =>
    fieldsOf(inner, tables, path === '' || path === '[]' ? name : `${path}.${name}`),
  )
}

function sorted(fields: readonly string[]): string[] {
  return [...new Set(fields)].sort()
}

/** Runs a command; its exit code is no field. */
async function output(...words: string[]): Promise<Output> {
  const { code: _, ...fields } = await json<Output>(words)
  return fields
}

const USAGE = ['usage.policies', 'usage.prefixes', 'usage.isComplete']

/** The states of all outputs so far: they have one table. */
const states: unknown[] = []
const CHANGES = 'reset, block, unblock, override, clear-override'
const outputs = {
  inspect: [] as Output[],
  top: [] as Output[],
  blocked: [] as Output[],
  prefixes: [] as Output[],
  [CHANGES]: [] as Output[],
}

beforeAll(async () => {
  const { store, server } = redis
  const at = (command: string, prefix: string, ...more: string[]) =>
    output(command, server.url, '--prefix', prefix, ...more)
  const ban = { after: 1, period: '1h', for: '1h' } as const
  const plans = { plan: tiers({ free: gcra({ limit: 2, period: '2d' }), pro: gcra({ limit: 9, period: '9d' }) }) }
  const waits = new RateLimiter(gcra({ limit: 5, period: '5h' }), { store, prefix: 'waits', ban: { ...ban, after: 3 } })
  const limiters: RateLimiter[] = [
    anything(new RateLimiter(anything(plans), { store, prefix: 'plans' })),
    new RateLimiter(slidingLog({ limit: 9, window: '1d' }), { store, prefix: 'log', tag: 'tenant' }),
    anything(
      new RateLimiter(
        {
          ip: fixedWindow({ limit: 1, window: '1d', per: 'ip' }),
          bucket: tokenBucket({ capacity: 5, refill: { tokens: 1, every: '1d' }, refillMode: 'interval', per: 'user' }),
        },
        { store, prefix: 'login', ban: { ...ban, policies: ['ip'] } },
      ),
    ),
    new RateLimiter(fixedWindow({ limit: 1_000_000, window: '1d' }), {
      store,
      prefix: 'leased',
      local: { lease: '1m' },
    }),
  ]
  const [plan, log, login, leased] = limiters as [RateLimiter, RateLimiter, RateLimiter, RateLimiter]
  await plan.take('ann', anything({ tier: 'pro' }))
  await log.take('ann', 3)
  await login.take(anything({ ip: 'a', user: 'ann' }))
  await login.take(anything({ ip: 'a', user: 'ann' }))
  await login.block(anything({ user: 'ann' }), '2h')
  await login.override(anything({ user: 'ann' }), anything({ bucket: { capacity: 9 } }), { ttl: '1h' })
  await waits.reserve('ann', 5, { ttl: '1h' })
  await waits.take('ann')
  const stop = new AbortController()
  const waiting = waits.wait('ann', { signal: stop.signal, maxWait: 3_600_000 }).catch(() => {})
  await waits.peek('ann')
  await leased.take('ann', { id: 'job' })
  const owing = new RateLimiter(gcra({ limit: 5, period: '5h' }), { store, prefix: 'owing' })
  const reservation = await owing.reserve('ann', 5)
  expect(reservation.allowed && (await reservation.commit(8))).toMatchObject({ owed: 3 })
  await new RateLimiter(slidingCounter({ limit: 5, window: '1d' }), { store, prefix: 'counter' }).take('ann')
  await until('all are registered', async () => (await server.command<string[]>('KEYS', '*:~policies')).length === 7)
  outputs.inspect = await Promise.all([
    at('inspect', 'plans', '--key', 'ann', '--tier', 'pro'),
    at('inspect', 'log', '--key', 'ann'),
    at('inspect', 'login', '--key', 'ip=a', '--key', 'user=ann'),
    at('inspect', 'waits', '--key', 'ann'),
    at('inspect', 'leased', '--key', 'ann'),
    at('inspect', 'owing', '--key', 'ann'),
    at('inspect', 'counter', '--key', 'ann'),
    at('inspect', 'nothing', '--key', 'nobody'),
  ])
  outputs.top = await Promise.all(['plans', 'login', 'nothing'].map((prefix) => at('top', prefix)))
  outputs.blocked = await Promise.all([...['login', 'nothing'].map((prefix) => at('blocked', prefix))])
  await log.block('bob', '1h')
  outputs.blocked.push(await at('blocked', 'log'))
  outputs.prefixes = [await output('prefixes', server.url)]
  outputs[CHANGES] = [
    await at('block', 'waits', '--key', 'bob', '--for', '1h'),
    await at('unblock', 'waits', '--key', 'bob', '--dry-run'),
    await at('override', 'waits', '--key', 'bob', '--numbers', 'limit=7', '--for', '1h'),
    await at('clear-override', 'waits', '--key', 'bob'),
    await at('reset', 'waits', '--key', 'bob'),
  ]
  stop.abort()
  await waiting
  states.push(...[...outputs.inspect, ...outputs.top].flatMap((one) => one.states ?? one.keys ?? []))
  await Promise.all([...limiters, waits].map((limiter) => limiter.close()))
}, 60_000)

test.each(['inspect', 'top', 'blocked', 'prefixes'] as const)('%s', (command) => {
  const tables = ['states', 'keys', ...(command === 'inspect' ? [] : ['usage'])]
  const found = outputs[command].flatMap((one) => fieldsOf(one, tables)).filter((field) => field !== 'blocked')
  const own = (documented.get(command) ?? []).filter((field) => !field.startsWith('keys[].'))
  expect(sorted(found)).toEqual(sorted(own))
  for (const usage of outputs[command].flatMap((one) => (one.usage === undefined ? [] : [one.usage]))) {
    expect(USAGE).toEqual(expect.arrayContaining(fieldsOf({ usage }, [])))
  }
})

test('the state of a key', () => {
  const own = [...(documented.get('The state of a key') ?? []), 'share']
  // Only in a cluster.
  expect(sorted([...states.flatMap((state) => fieldsOf(state, [])), 'sharesTag'])).toEqual(sorted(own))
})

test('commands that change a key', () => {
  const all = [...(documented.get(CHANGES) ?? []), ...(documented.get('inspect') ?? [])]
  const found = outputs[CHANGES].flatMap((one) => fieldsOf(one, ['states']))
  expect(found.filter((field) => !all.includes(field))).toEqual([])
  expect(found).toEqual(expect.arrayContaining(documented.get(CHANGES) ?? ['command']))
  expect(outputs[CHANGES].map(({ isDone }) => isDone)).toEqual([true, false, true, true, true])
})

test('simulate', async () => {
  const log = join(folder, 'access.log')
  const line = (second: number, ip: number) =>
    `10.0.0.${ip} - ann [31/Jan/2026:10:${String(Math.floor(second / 60)).padStart(2, '0')}:${String(second % 60).padStart(2, '0')} +0000] "GET /a HTTP/1.1" 200 10\n`
  const lines = Array.from({ length: 120 }, (_, second) => [line(second, 1), line(second, second % 20)].join(''))
  writeFileSync(log, `${lines.join('')}broken\n`)
  const words = ['simulate', log, '--policy', 'fixedWindow limit=5 window=1m']
  const found = await Promise.all([output(...words), output(...words, '--suggest', '1%')])
  const fields = found.flatMap((one) => fieldsOf(one, []))
  const own = documented.get('simulate') ?? []
  const empty = ['policies', 'suggestions', 'peaks']
  expect(sorted(fields.filter((field) => !empty.includes(field)))).toEqual(
    sorted(own.filter((field) => !empty.includes(field))),
  )
})
