/** `tollgate-cli simulate`: its counts, its log parsing, and its error messages. */
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import type { SimulationReport } from '../../ts/cli/simulate/report/report.js'
import { type RunOptions, tollgate } from './command.js'

const ROOT = join(__dirname, '..', '..')
const LOGS = join(ROOT, 'tests', 'benches', 'node', 'access-log.mjs')
const REFERENCE = join(ROOT, 'tests', 'benches', 'node', 'slow-simulation.mjs')

const run = promisify(execFile)

const POLICIES = ['gcra limit=5 period=1m burst=3', 'fixedWindow limit=4 window=1m', 'slidingLog limit=4 window=1m']

let folder: string

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-simulate-'))
})

afterAll(() => {
  rmSync(folder, { recursive: true, force: true })
})

/** Runs `tollgate-cli simulate --format json` in the folder of the logs. */
async function simulated(words: readonly string[], more: RunOptions = {}): Promise<SimulationReport> {
  const { code, stdout, stderr } = await tollgate(['simulate', ...words, '--format', 'json'], { cwd: folder, ...more })
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return JSON.parse(stdout)
}

function write(name: string, lines: readonly string[]): string {
  writeFileSync(join(folder, name), lines.map((line) => `${line}\n`).join(''))
  return name
}

const second = (count: number) => `31/Jan/2026:10:00:${String(count).padStart(2, '0')} +0000`

const line = (time: string, ip = '10.0.0.1', request = 'GET / HTTP/1.1') => `${ip} - - [${time}] "${request}" 200 10`

/** At most two at once: the third within a second is refused. */
const TWO = ['--policy', 'fixedWindow limit=2 window=1m']

describe('on a generated log of 100,000 lines', () => {
  const log = () => join(folder, 'generated.log')
  const report = () => join(folder, 'generated.json')
  const policies = POLICIES.flatMap((policy) => ['--policy', policy])
  let result: SimulationReport

  beforeAll(async () => {
    await run(process.execPath, [LOGS, log(), '100000'])
    const words = [log(), ...policies, '--top', '1000000', '--format', 'json', '--output', report()]
    expect(await tollgate(['simulate', ...words])).toEqual({ code: 0, signal: null, stdout: '', stderr: '' })
    result = JSON.parse(readFileSync(report(), 'utf8'))
  })

  test('each count, key and time equals that of a slow reference, independent of the engine', async () => {
    const { stdout } = await run(process.execPath, [REFERENCE, log(), report()])
    expect(stdout).toMatch(/^equal: 99997 requests; refused by gcra .*: 7169 of 16 keys;/)
  })

  test('the reference detects a count that is off by one', async () => {
    const [first, ...others] = result.policies
    const wrong = { ...result, policies: [{ ...first, refused: (first?.refused ?? 0) + 1 }, ...others] }
    writeFileSync(join(folder, 'wrong.json'), JSON.stringify(wrong))
    await expect(run(process.execPath, [REFERENCE, log(), join(folder, 'wrong.json')])).rejects.toMatchObject({
      code: 1,
      stderr: 'gcra limit=5 period=1m burst=3: refused: 7170 was told, 7169 is right\n',
    })
  })

  test('the results are the same from gzip, from standard input, and in parts', async () => {
    // A tenth of the log, because it is read five times.
    const all = readFileSync(log())
    const bytes = all.subarray(0, all.indexOf('\n', all.length / 10) + 1)
    writeFileSync(join(folder, 'whole.log'), bytes)
    writeFileSync(join(folder, 'whole.gz'), gzipSync(bytes))
    const middle = bytes.indexOf('\n', bytes.length / 2) + 1
    writeFileSync(join(folder, 'a.log'), bytes.subarray(0, middle))
    // Concatenated rotated logs form one gzip stream with several members.
    writeFileSync(join(folder, 'b.log.gz'), gzipSync(bytes.subarray(middle)))
    const counts = async (words: readonly string[], stdin?: Uint8Array) =>
      (await simulated([...words, ...policies], stdin === undefined ? {} : { stdin })).policies.map((policy) => policy)
    const right = await counts(['whole.log'])
    expect(right.every(({ refused }) => refused > 0)).toBe(true)
    expect(await counts(['whole.gz'])).toEqual(right)
    expect(await counts(['-'], bytes)).toEqual(right)
    expect(
      await counts(['-'], Buffer.concat([gzipSync(bytes.subarray(0, middle)), gzipSync(bytes.subarray(middle))])),
    ).toEqual(right)
    expect(await counts(['a.log', 'b.log.gz'])).toEqual(right)
  })

  test('the reference confirms the counts of JSON lines, too', async () => {
    const [json, jsonReport] = [join(folder, 'lines.json'), join(folder, 'lines-report.json')]
    await run(process.execPath, [LOGS, json, '20000', 'json'])
    await tollgate(['simulate', json, ...policies, '--top', '1000000', '--format', 'json', '--output', jsonReport])
    const { stdout } = await run(process.execPath, [REFERENCE, json, jsonReport])
    expect(stdout).toMatch(/^equal: 20000 requests; refused by gcra .*: [1-9]\d* of \d+ keys;/)
  })
})

test('invalid lines are counted and reported by number, and are a failure only on request', async () => {
  const lines = [
    line(second(0)),
    '',
    'Segmentation fault',
    line('31/Feb/2026:10:00:00 +0000'),
    '{"half": ',
    '{"ip":"1"}',
  ]
  write('broken.log', [...lines, line(second(1))])
  const { broken, requests } = await simulated(['broken.log', ...TWO])
  expect({ broken, requests }).toEqual({
    requests: 2,
    broken: {
      lines: 4,
      first: [
        { file: 'broken.log', line: 3, reason: 'neither JSON nor the common log format: no [time]' },
        { file: 'broken.log', line: 4, reason: 'no time like [10/Oct/2000:13:55:36 -0700]' },
        { file: 'broken.log', line: 5, reason: 'invalid JSON' },
        { file: 'broken.log', line: 6, reason: 'no time in the JSON object' },
      ],
    },
  })
  expect((await tollgate(['simulate', 'broken.log', ...TWO, '--fail-on-broken'], { cwd: folder })).code).toBe(1)
})

test('a log without a valid line is a failure, not an empty report', async () => {
  write('no.log', ['what is this?'])
  expect(await tollgate(['simulate', 'no.log', ...TWO], { cwd: folder })).toEqual({
    code: 3,
    signal: null,
    stdout: '',
    stderr:
      'tollgate: no line of the log can be read; the first, no.log:1: neither JSON nor the common log format: no [time]\n',
  })
})

test.each([
  [['--key', 'foo'], /^tollgate: --key foo: the log has no request with it; give a field such as ip, /],
  [['--key', 'ip+/token=(\\w+)/'], /^tollgate: --key ip\+\/token=\(\\w\+\)\/: the log has no request with it; /],
  [['--key', 'path'], /^tollgate: --key path: the log has only keys above 1024 bytes there; /],
  [['--cost', 'weight'], /^tollgate: --cost weight: the log has no request with a number there; give bytes, /],
  [
    ['--policy', 'gcra limit=2 period=1m per=user', '--key', 'user=who'],
    /^tollgate: --key user=who: the log has no re/,
  ],
  [['--policy', 'gcra limit=2 period=1m per=user'], /^tollgate: --key user: the log has no request with it; /],
])('%s, which no request has, is a usage error, not a report without refusals', async (words, complaint) => {
  write('lacking.log', [line(second(0), '10.0.0.1', `GET /${'x'.repeat(1_030)} HTTP/1.1`)])
  const { code, stdout, stderr } = await tollgate(['simulate', 'lacking.log', ...TWO, ...words], { cwd: folder })
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toMatch(complaint)
})

test('an empty log, and a share without any comparison, are reported', async () => {
  write('empty.log', [])
  expect(await tollgate(['simulate', 'empty.log', ...TWO], { cwd: folder })).toMatchObject({
    code: 3,
    stdout: '',
    stderr: 'tollgate: the log is empty: empty.log\n',
  })
  expect(await tollgate(['simulate', '-', ...TWO])).toMatchObject({
    code: 3,
    stdout: '',
    stderr: 'tollgate: the log is empty: the standard input\n',
  })
  write('one.log', [line(second(0))])
  expect(
    await tollgate(['simulate', 'one.log', '--suggest', '1%', '--fail-above', '1%'], { cwd: folder }),
  ).toMatchObject({
    code: 2,
    stdout: '',
    stderr: 'tollgate: --fail-above needs a policy with all of its numbers: --policy, or --policies\n',
  })
})

test('late lines are reordered within the window; later ones are replayed last, and reported', async () => {
  // In order: 0, 1, 50 admits two of three. Unsorted, the late lines would be decided at 50.
  write('order.log', [line(second(50)), line(second(1)), line(second(0)), line(second(55)), line(second(10))])
  const { order, policies } = await simulated([
    'order.log',
    '--policy',
    'slidingLog limit=1 window=10s',
    '--reorder=50s',
  ])
  expect(order).toEqual({ disordered: 3, furthestMs: 50_000, windowMs: 50_000, late: 0, firstLate: null })
  // 0, 10 and 50 are admitted, 1 and 55 are not.
  expect(policies[0]).toMatchObject({ refused: 2, first: Date.UTC(2026, 0, 31, 10, 0, 1) })
  const short = await simulated(['order.log', '--policy', 'slidingLog limit=1 window=10s', '--reorder', '20s'])
  expect(short.order).toMatchObject({ disordered: 3, late: 3, firstLate: { file: 'order.log', line: 2 } })
})

test('every kind of key: fields, paths, expressions and several of them; requests without a key are reported', async () => {
  const object = (fields: object) => JSON.stringify({ time: '2026-01-31T10:00:00Z', ...fields })
  write('keys.json', [
    ...Array(3).fill(object({ ip: '10.0.0.1', url: '/a?x=1', user: 'ann', headers: { 'x-api-key': ['one'] } })),
    ...Array(3).fill(object({ ip: '2001:db8::1', url: '/a?x=2', user: 'bob', headers: {} })),
    object({ ip: '2001:db8::ffff:2', url: '/b', user: '-' }),
  ])
  const keysBy = async (key: string) => {
    const { policies, keys } = await simulated(['keys.json', ...TWO, '--key', key])
    const named = policies[0]?.keys.map(({ key: name, requests, refused }) => [name, requests, refused])
    return { named, without: keys[0]?.requestsWithout }
  }
  const twice = (...names: string[]) => names.map((name) => [name, 3, 1])
  expect(await keysBy('ip')).toEqual({ named: [['2001:db8:0:0:0:0:0:0/56', 4, 2], ...twice('10.0.0.1')], without: 0 })
  expect(await keysBy('user')).toEqual({ named: twice('ann', 'bob'), without: 1 })
  expect(await keysBy('path')).toEqual({ named: [['/a', 6, 4]], without: 0 })
  expect(await keysBy('headers.x-api-key')).toEqual({ named: twice('one'), without: 4 })
  expect(await keysBy('/x=(\\d)/')).toEqual({ named: twice('1', '2'), without: 1 })
  expect(await keysBy('user+path')).toEqual({ named: twice('ann /a', 'bob /a'), without: 1 })
})

test.each([
  ['203.0.113.7', '::ffff:203.0.113.7', '203.0.113.7:5000', ' 203.0.113.7 ', '[::ffff:cb00:7107]:443'],
  ['2001:db8:0:0:0:0:0:0/56', '2001:db8::1', '[2001:db8::2]:443', ' 2001:DB8::3', '2001:db8::4%eth0'],
])('an address has one key, %s, in all spellings and in any order', async (key, ...spellings) => {
  const all = key.includes('/') ? spellings : [key, ...spellings]
  for (const [first, order] of all.map((_, at) => [at, [...all.slice(at), ...all.slice(0, at)]] as const)) {
    const lines = order.map((ip) => JSON.stringify({ time: '2026-01-31T10:00:00Z', ip, user: 'ann' }))
    const name = write(`spellings-${first}.json`, lines)
    const { keys, policies } = await simulated([name, ...TWO, '--key', 'ip'])
    expect(keys).toMatchObject([{ by: 'ip', keys: 1 }])
    expect(policies[0]?.keys).toMatchObject([{ key, requests: all.length, refused: all.length - 2 }])
    expect((await simulated([name, ...TWO, '--key', 'ip+user'])).keys).toMatchObject([{ keys: 1 }])
  }
})

test('a set of policies decides together, each by its own key, and the refusing policy is reported', async () => {
  write('per.json', [
    ...Array(4).fill('{"time":1769853600,"ip":"10.0.0.1","user":"ann"}'),
    ...Array(2).fill('{"time":1769853601,"ip":"10.0.0.2","user":"ann"}'),
  ])
  write('limits.json', [
    JSON.stringify({
      plan: {
        ip: 'fixedWindow limit=3 window=1m per=ip',
        user: { algorithm: 'fixedWindow', limit: 4, window: '1m', per: 'user' },
      },
      plain: 'gcra limit=10 period=1m',
    }),
  ])
  const { policies } = await simulated(['per.json', '--policies', 'limits.json'])
  const [plan, plain] = policies
  expect(plan).toMatchObject({ name: 'plan', refused: 2, byLimit: { ip: 1, user: 1 } })
  expect(plan?.keys.map(({ by, key }) => [by, key])).toEqual([
    ['ip', '10.0.0.1'],
    ['user', 'ann'],
  ])
  expect(plain).toMatchObject({ name: 'plain', refused: 0 })
})

test('--cost charges the value of a field, and reports costs that can never fit', async () => {
  const cost = (bytes: string) => `{"time":1769853600,"ip":"10.0.0.1","bytes":${bytes}}`
  write('cost.json', [cost('60'), cost('50'), cost('101'), cost('"many"'), cost('0')])
  const { policies, withoutCost } = await simulated(['cost.json', '-p', 'gcra limit=100 period=1h', '--cost', 'bytes'])
  expect(policies[0]).toMatchObject({ refused: 2, impossible: 1 })
  expect(withoutCost).toBe(1)
})

test('text from the log cannot control the terminal', async () => {
  const hostile = '{"time":1769853600,"ip":"\\u001b[2J\\u202Eevil\\u0000"}'
  write('hostile.json', Array(3).fill(hostile))
  const { stdout } = await tollgate(['simulate', 'hostile.json', ...TWO], { cwd: folder })
  expect(stdout).toContain('\\x1b[2J\\u202eevil\\x00')
  expect(stdout).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}]/u)
})

test.each([
  [['none.log', ...TWO], 3, 'none.log: there is no such file'],
  [['.', ...TWO], 3, '.: it is a folder'],
  [['cut.gz', ...TWO], 3, 'cut.gz: its compression is broken'],
  [['one.log'], 2, "no policy is given: --policy 'gcra limit=100 period=1m', --policies limits.json, or --suggest 1%"],
  [['one.log', '-p', 'gcra limit=0 period=1s'], 2, '--policy "gcra limit=0 period=1s": gcra: limit must be'],
  [['one.log', ...TWO, ...TWO], 2, 'the policy "fixedWindow limit=2 window=1m" is given twice'],
  [['one.log', ...TWO, '--key', 'ip+'], 2, '--key "ip+" must be a field'],
  [['one.log', ...TWO, '--key', 'user=/(/'], 2, '--key "user=/(/": no policy has per: "user"'],
  [['one.log', ...TWO, '--key', '/(/'], 2, '--key: Invalid regular expression'],
  [['one.log', ...TWO, '--suggest', '100%'], 2, '--suggest must be a share below 100 %'],
  [['-', '--suggest', '1%'], 2, '--suggest replays the log several times'],
  [['one.log', ...TWO, '--reorder', 'soon'], 2, '--reorder: '],
  [['one.log', ...TWO, '--ipv6-prefix', '129'], 2, '--ipv6-prefix: '],
  [['one.log', '--policies', 'flawed.json'], 2, 'flawed.json: login.short: gcra: period must be a duration'],
  [
    ['one.log', '--policy', 'gcra limit=9 period=1d meter=tokens'],
    2,
    'the policy "gcra limit=9 period=1d meter=tokens": a request has one cost; leave out meter',
  ],
  [['one.log', '--policies', 'no.json'], 3, 'no.json: there is no such file'],
  [['one.log', ...TWO, '--output', 'no/such/folder.html'], 3, 'no/such/folder.html cannot be written: '],
])('%j exits with %i and an error message, without a stack', async (words, code, complaint) => {
  write('one.log', [line(second(0))])
  write('flawed.json', ['{"login": {"long": "gcra limit=9 period=1d", "short": "gcra limit=3"}}'])
  writeFileSync(join(folder, 'cut.gz'), gzipSync(Buffer.alloc(100_000, 'x')).subarray(0, 40))
  const result = await tollgate(['simulate', ...words], { cwd: folder })
  expect(result).toMatchObject({ code, stdout: '' })
  expect(result.stderr.startsWith(`tollgate: ${complaint}`) ? complaint : result.stderr).toBe(complaint)
  expect(result.stderr).not.toMatch(/^\s+at /m)
})

test('--fail-above exits with 1 if a policy refuses more than its share, and still prints the report', async () => {
  write(
    'three.log',
    [0, 1, 2].map((count) => line(second(count))),
  )
  const coded = async (share: string) => {
    const { code, stdout } = await tollgate(['simulate', 'three.log', ...TWO, '--fail-above', share], { cwd: folder })
    expect(stdout).toContain('would have refused 1 of 3 requests (33.3 %), of 1 key')
    return code
  }
  expect([await coded('33%'), await coded('34%')]).toEqual([1, 0])
})
