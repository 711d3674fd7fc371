/** Tables that fit the terminal, and the progress bar of a search. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import stringWidth from 'string-width'
import { EXIT } from '../../ts/cli/exit-codes.js'
import { progressOf } from '../../ts/cli/progress.js'
import { run as runCommand } from '../../ts/cli/run.js'
import { shellWord, table } from '../../ts/cli/terminal.js'

describe('a table', () => {
  const rows = [
    ['key', 'requests', 'first', 'notes'],
    ['/a/very/long/path/of/an/api/with/many/parts', 1_234, '2026-01-31 10:00:00', '(blocked)'],
    ['漢字漢字漢字漢字漢字漢字漢字漢字', 5, '2026-01-31 10:00:00', '(blocked for 59 min 58 s)'],
  ]

  test('is as wide as its texts where there is no terminal', () => {
    expect(table(rows, { columns: undefined, cut: [0], omit: [2] })).toContain('/with/many/parts')
  })

  test.each([120, 100, 80, 70, 60, 50])('fits %i columns', (columns) => {
    const lines = table(rows, { columns, cut: [0, 3], omit: [2] })
      .trimEnd()
      .split('\n')
    expect(Math.max(...lines.map((line) => stringWidth(line)))).toBeLessThanOrEqual(columns)
    // Numbers are never cut.
    expect(lines[1]).toMatch(/^ {2}\/a\/very\/lon.* 1,234 /)
  })

  test('leaves a column out only if cutting is not enough', () => {
    expect(table(rows, { columns: 70, cut: [0, 3], omit: [2] })).toContain('2026-01-31 10:00:00')
    expect(table(rows, { columns: 50, cut: [0, 3], omit: [2] })).not.toContain('2026')
  })
})

test.each([
  ['ip=2001:db8::1', 'ip=2001:db8::1'],
  ['Ünal', 'Ünal'],
  ['', "''"],
  ['=ls', "'=ls'"],
  ['a b;$(c)', "'a b;$(c)'"],
  ["it's", "'it'\\''s'"],
  // A shell reads these as bytes.
  ["it's\n\\\u009b\u202e", "$'it\\'s\\x0a\\\\\\xc2\\x9b\\xe2\\x80\\xae'"],
])('the word of a shell for %j is %s', (text, word) => {
  expect(shellWord(text)).toBe(word)
})

describe('in a terminal of 80 columns', () => {
  let folder: string
  let log: string

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'tollgate-terminal-'))
    log = join(folder, 'access.log')
    const path = `/${'directory/'.repeat(8)}`
    const line = (client: number) => `10.0.0.${client} - - [31/Jan/2026:10:00:00 +0000] "GET ${path} HTTP/1.1" 200 10\n`
    const clients = Array.from({ length: 100 }, (_, client) => client)
    writeFileSync(log, clients.flatMap((client) => Array<string>(client).fill(line(client))).join(''))
  })

  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  /** Runs the command line in this process, because a child process of a test has no terminal. */
  async function run(...words: string[]) {
    const [stdout, stderr] = [0, 1].map(() => Object.assign(new PassThrough(), { isTTY: true, columns: 80, rows: 24 }))
    const terminal = { stdin: new PassThrough(), stdout, stderr, env: { NO_COLOR: '1' } }
    expect(await runCommand(words, terminal as unknown as typeof process)).toBe(EXIT.fine)
    return { stdout: String(stdout?.read() ?? ''), stderr: String(stderr?.read() ?? '') }
  }

  test('no text is wider, besides commands and code to copy', async () => {
    const outputs = [
      run('simulate', log, '--policy', 'fixedWindow window=1m', '--suggest', '1%'),
      ...['simulate', 'top', 'inspect', 'override', 'prefixes', 'demo', 'playground'].map((name) => run('help', name)),
    ]
    const lines = (await Promise.all(outputs)).flatMap(({ stdout }) => stdout.split('\n'))
    expect(lines.length).toBeGreaterThan(100)
    const wide = lines.filter((line) => stringWidth(line) > 80)
    expect(wide.filter((line) => !/^ {2}(npx|zcat|new) /.test(line))).toEqual([])
    expect(lines.filter((line) => line.includes('default: []'))).toEqual([])
    // A paragraph keeps its indentation.
    expect(lines).toContain("  command's arguments: put such a URL into REDIS_URL or --url-file, or the")
  })

  test('the tables of a report fit', async () => {
    const { stdout } = await run('simulate', log, '--policy', 'fixedWindow limit=10 window=1m', '--key', 'ip+path')
    const rows = stdout.split('\n').filter((line) => line.includes('10.0.0.'))
    expect(rows.length).toBeGreaterThan(5)
    expect(Math.max(...rows.map((line) => stringWidth(line)))).toBeLessThanOrEqual(80)
  })

  test('a search has one progress bar, which does not go back', async () => {
    const { stderr } = await run('simulate', log, '--policy', 'fixedWindow window=1m', '--suggest', '1%')
    const shown = [...stderr.matchAll(/([a-z]+) \[[^\]]*\] (\d+) %/g)]
    expect(new Set(shown.map(([, title]) => title))).toEqual(new Set(['searching']))
    const shares = shown.map(([, , share]) => Number(share))
    expect(shares[0]).toBe(0)
    expect(shares).toEqual([...shares].sort((one, other) => one - other))
    expect(shares.at(-1)).toBeGreaterThanOrEqual(90)
  })

  test('a bar does not go back if more work is expected than before', () => {
    const stderr = Object.assign(new PassThrough(), { isTTY: true, columns: 80 })
    const progress = progressOf({ stderr } as unknown as typeof process, 'searching', 100)
    progress.advance(50)
    progress.expect(200)
    progress.advance(60)
    progress.end()
    const shares = [...String(stderr.read()).matchAll(/(\d+) %/g)].map(([, share]) => Number(share))
    expect([shares[0], shares.at(-1)]).toEqual([0, 55])
    expect(shares).toEqual([...shares].sort((one, other) => one - other))
  })
})
