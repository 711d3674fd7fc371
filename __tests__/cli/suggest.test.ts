/** `--suggest`: finds, by replaying, the numbers that would have refused at most a given share. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SimulationReport } from '../../ts/cli/simulate/report/report.js'
import { textReport } from '../../ts/cli/simulate/report/report-text.js'
import { paintFor, type Terminal } from '../../ts/cli/terminal.js'
import { tollgate } from './command.js'

let folder: string

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-suggest-'))
  // Client n of 100 makes n requests at once: 5,050 in all.
  const clients = Array.from({ length: 100 }, (_, client) => client + 1)
  const lines = clients.flatMap((client) =>
    Array<string>(client).fill(`10.0.0.${client} - - [31/Jan/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 10\n`),
  )
  writeFileSync(join(folder, 'access.log'), lines.join(''))
})

afterAll(() => {
  rmSync(folder, { recursive: true, force: true })
})

async function suggested(...words: string[]): Promise<SimulationReport> {
  const { code, stdout, stderr } = await tollgate(['simulate', 'access.log', ...words, '--format', 'json'], {
    cwd: folder,
  })
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return JSON.parse(stdout)
}

test.each([
  // A limit of 90 refuses 1 + 2 + … + 10 of 5,050, or 1.09 %; a limit of 91 refuses 45.
  ['1%', 91, 45, 9],
  ['1% of requests', 91, 45, 9],
  ['10% of keys', 90, 55, 10],
  ['0%', 100, 0, 0],
])('%s: the smallest limit within the share, and its refusals', async (share, limit, refused, refusedKeys) => {
  const { suggestions, policies } = await suggested('--policy', 'fixedWindow window=1m', '--suggest', share)
  expect(policies).toEqual([])
  expect(suggestions).toEqual([
    expect.objectContaining({
      name: 'fixedWindow window=1m',
      text: `fixedWindow limit=${limit} window=1m`,
      tooSmall: limit - 1,
      refused,
      refusedKeys,
    }),
  ])
})

test('the suggestion, replayed, refuses the announced number; one less refuses more than the given share', async () => {
  const { suggestions } = await suggested('--suggest', '5%')
  expect(suggestions.map(({ name }) => name)).toEqual(['gcra period=1s', 'gcra period=1m', 'gcra period=1h'])
  const texts = suggestions.map(({ text }) => text as string)
  const { policies } = await suggested(...texts.flatMap((text) => ['--policy', text]))
  expect(policies.map(({ refused }) => refused)).toEqual(suggestions.map(({ refused }) => refused))
  for (const { tooSmall } of suggestions) {
    const [less] = (await suggested('--policy', `gcra limit=${tooSmall} period=1h`)).policies
    expect(less?.share).toBeGreaterThan(0.05)
  }
})

test('numbers that depend on the limit keep their ratio to it', async () => {
  const words = ['--policy', 'tokenBucket capacity=10 refill=5/1s', '--suggest', '1%']
  const { suggestions, policies } = await suggested(...words)
  expect(policies).toHaveLength(1)
  expect(suggestions[0]?.text).toBe('tokenBucket capacity=91 refill=46/1s')
})

test('numbers that are given stay as they are if the limit is searched', async () => {
  const words = ['--policy', 'gcra period=1m burst=40', '--policy', 'tokenBucket refill=10/1s', '--suggest', '0%']
  const { suggestions } = await suggested(...words)
  // The largest client sends 100 requests at once, so no limit suffices for a burst of 40.
  expect(suggestions.map(({ text }) => text)).toEqual([null, 'tokenBucket capacity=100 refill=10/1s'])
})

test('a limit in the gap between busy keys and the rest is code, too, and checked by the same command', async () => {
  const line = (key: string) => `${key} - - [31/Jan/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 10\n`
  const busy = Array<string>(300).fill(line('10.9.9.9')).join('')
  const calm = Array.from({ length: 20 }, (_, client) => line(`10.0.0.${client}`).repeat(10)).join('')
  writeFileSync(join(folder, 'gap.log'), calm + busy)
  const { stdout } = await tollgate(['simulate', 'gap.log', '--policy', 'gcra period=1m', '--suggest', '40%'], {
    cwd: folder,
  })
  expect(stdout).toContain('any limit from 10 to 299 in every 1 min refuses 1 key, and none of the other 20')
  const [, code, command] = /\nin code:\n([\s\S]*)\n\nto check them:\n {2}npx tollgate-cli (.*)\n$/.exec(stdout) ?? []
  expect(code?.split('\n')).toEqual([
    "  new RateLimiter(gcra({ limit: 100, period: '1m' }))",
    "  new RateLimiter(gcra({ limit: 50, period: '1m' })) // in the gap: 1 key sent more",
  ])
  expect(command).toContain("--policy 'gcra limit=50 period=1m' --key ip")
  const again = await tollgate(['simulate', 'gap.log', '--policy', 'gcra limit=50 period=1m'], { cwd: folder })
  expect(again.stdout).toContain('would have refused 250 of 500 requests (50 %), of 1 key')
})

test('the report names the request, the result and the method', async () => {
  const words = ['simulate', 'access.log', '--policy', 'fixedWindow window=1m', '--suggest', '1% of keys']
  const { stdout } = await tollgate(words, { cwd: folder })
  expect(stdout).toMatch(
    /to refuse at most 1 % of keys by fixedWindow window=1m:\n {2}fixedWindow limit=99 window=1m\n {2}refuses 1 request \(0\.0198 %\), of 1 key; 98 refuses more \(found in \d+ replays\)\n/,
  )
  // It ends with the code, and with a command that gives the same counts.
  const [, code, command] = /\nin code:\n(.*)\n\nto check it:\n {2}npx tollgate-cli (.*)\n$/.exec(stdout) ?? []
  expect(code).toBe("  new RateLimiter(fixedWindow({ limit: 99, window: '1m' }))")
  expect(command).toBe("simulate access.log --policy 'fixedWindow limit=99 window=1m' --key ip")
  const again = ['simulate', 'access.log', '--policy', 'fixedWindow limit=99 window=1m', '--key', 'ip']
  expect((await tollgate(again, { cwd: folder })).stdout).toContain('would have refused 1 of ')
})

test('several policies are compared in a table before their details', async () => {
  const words = [
    'simulate',
    'access.log',
    '--policy',
    'gcra limit=5 period=1s',
    '--policy',
    'gcra limit=10000 period=1s',
  ]
  const { stdout } = await tollgate(words, { cwd: folder })
  const lines = stdout.split('\n')
  const start = lines.findIndex((line) => line.startsWith('  policy '))
  expect(lines[start]).toMatch(/^ {2}policy +refused +keys refused +worst minute$/)
  expect(lines[start + 1]).toMatch(/^ {2}gcra limit=5 period=1s +[\d,]+ {2}[\d.]+ % +\d+ +[\d,]+$/)
  expect(lines[start + 2]).toMatch(/^ {2}gcra limit=10000 period=1s +0 {2}0 % +0 +0$/)
  expect(lines.slice(start + 3).join('\n')).toMatch(/^\ngcra limit=5 period=1s\n {2}would have refused /)
  const single = await tollgate(words.slice(0, 4), { cwd: folder })
  expect(single.stdout).not.toContain('keys refused')
})

describe('colours', () => {
  const stream = (isTTY: boolean) => ({ isTTY }) as Terminal['stdout']
  const paint = (isTTY: boolean, env: Terminal['env']) => {
    return paintFor({ stdin: process.stdin, stdout: stream(isTTY), stderr: stream(isTTY), env })('red', 'text')
  }

  test('are for terminals alone, and NO_COLOR disables them', () => {
    expect(paint(true, {})).toBe('\u001b[31mtext\u001b[39m')
    expect([paint(false, {}), paint(true, { NO_COLOR: '1' }), paint(true, { TERM: 'dumb' })]).toEqual(
      Array.from({ length: 3 }, () => 'text'),
    )
    // An empty variable is not set.
    expect(paint(true, { NO_COLOR: '' })).toContain('\u001b')
  })

  test('change no text of a report', async () => {
    const policies = ['--policy', 'gcra limit=5 period=1s', '--policy', 'gcra period=1m']
    const report = (await suggested(...policies, '--suggest', '1%')) as unknown as SimulationReport
    const painted = textReport(report, (_, text) => `<${text}>`)
    expect(painted).not.toBe(textReport(report))
    const words = (text: string) => text.replace(/[<>]/g, '').split(/\s+/)
    expect(words(painted)).toEqual(words(textReport(report)))
  })
})

test('--suggest refuses a policy with several limits', async () => {
  const words = ['simulate', 'access.log', '--policy', 'slidingLog limits.a=1/1s limits.b=2/1m', '--suggest', '1%']
  expect(await tollgate(words, { cwd: folder })).toMatchObject({
    code: 2,
    stderr: 'tollgate: --suggest cannot search for several numbers at once, as slidingLog with limits has them\n',
  })
})
