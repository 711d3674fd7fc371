/** `tollgate-cli demo`: real requests to a limited server, and the check of the bound. */
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import stringWidth from 'string-width'
import { DemoClient, makeClients } from '../../ts/cli/demo/clients.js'
import { type DemoState, FRAME_COLUMNS, FRAME_ROWS, frame, violationsOf } from '../../ts/cli/demo/screen.js'
import { plain } from '../../ts/cli/terminal.js'
import { start, tollgate } from './command.js'

// The numbers depend on the machine's speed: a burst that takes 100 ms to arrive gets 1 unit more. Only
// the polite client's refusals are fixed.
test('it shows that the bound holds, and a real refusal', async () => {
  // On a very slow machine the clients send too few requests for a refusal in two seconds.
  let [result, given] = [await tollgate(['demo', '--seconds', '2']), 2]
  while (!/^ {2}refused +[1-9]/m.test(result.stdout) && given < 30) {
    given *= 4
    result = await tollgate(['demo', '--seconds', `${given}`])
  }
  const { code, stdout } = result
  expect(code).toBe(0)
  const numbers = (name: string) =>
    [...stdout.matchAll(new RegExp(`^  ${name} +(\\d+)  \\S`, 'gm'))].map(([, n]) => Number(n))
  const [polite = 0, bursty = 0, flood = 0] = numbers('allowed')
  const [refusedPolite, refusedBursty = 0, refusedFlood = 0] = numbers('refused')
  expect(polite).toBeGreaterThan(0)
  const [, seconds, bound] =
    /^✓ In (\d+\.\d\d) s no client got more than (\d+) \(20 \+ 10 per second\)\.$/m.exec(stdout) ?? []
  // The seconds are rounded to hundredths, which is less than one unit.
  expect(Math.abs(Number(bound) - Math.floor(20 + 10 * Number(seconds)))).toBeLessThanOrEqual(1)
  expect(bursty).toBeGreaterThanOrEqual(20)
  expect(bursty).toBeLessThanOrEqual(Number(bound))
  // A busy machine may send less than the burst.
  expect(flood).toBeGreaterThanOrEqual(Math.min(20, flood + refusedFlood))
  expect(flood).toBeLessThanOrEqual(Number(bound))
  expect(refusedPolite).toBe(0)
  expect(refusedBursty + refusedFlood).toBeGreaterThan(0)
  expect(stdout).toMatch(/^ +\d+\.\d s {3}flood +allowed +\d+ +refused +\d+$/m)
  expect(stdout).toContain('✓ The polite client stayed below the limit and was never refused.')
  expect(stdout).toContain('HTTP/1.1 429 Too Many Requests')
  expect(stdout).toContain('RateLimit-Policy: "default";q=20;w=2\n')
  expect(stdout).toContain('RateLimit: "default";r=0;t=1\n')
  expect(stdout).toContain('Retry-After: 1\n')
  expect(stdout).toContain('Next: npx tollgate-cli playground')
  // Not a terminal: no colours, no cursor movements.
  expect(stdout).not.toContain('\u001b')
})

test('Ctrl-C ends it with its result', async () => {
  const demo = start(['demo', '--seconds', '600'])
  const exited = once(demo, 'exit')
  try {
    await once(demo.stdout as NodeJS.ReadableStream, 'data')
    demo.kill('SIGINT')
    expect(await text(demo.stdout as NodeJS.ReadableStream)).toContain('no client got more than')
    expect(await exited).toEqual([0, null])
  } finally {
    demo.kill('SIGKILL')
  }
})

test.each([
  [['--seconds', 'long'], 2, "--seconds must be a number above 0, up to 3600, got 'long'"],
  [['http://localhost'], 2, 'url must be a Redis URL'],
  [['redis://localhost:1'], 3, 'Redis is not available'],
])('an invalid call is refused: %j', async (words, code, message) => {
  const result = await tollgate(['demo', ...words])
  expect(result.code).toBe(code)
  expect(result.stderr).toContain(message)
})

describe('a frame', () => {
  const clients = makeClients()
  for (const client of clients) {
    client.refusal = {
      status: 429,
      statusText: 'Too Many Requests',
      headers: new Headers({ 'RateLimit-Policy': '"default";q=20;w=2' }),
    }
    client.allowedBy.push(12_345, 12_345)
    client.refused = client.name === 'polite' ? 0 : 123_456
    client.allowedIn.push(...[0, 1].map(() => new Array<number>(50).fill(100)))
  }
  const state: DemoState = { clients, servers: 1, seconds: 10, elapsed: 1e9, isOver: true }

  test.each([
    [1, 1e9, true],
    [2, 1e9, true],
    [1, 3, false],
    [2, 3, false],
  ])('fits a terminal of 24 rows and 80 columns: %i servers, %d s', (servers, elapsed, isOver) => {
    const lines = frame({ ...state, servers, elapsed, isOver }, FRAME_COLUMNS, plain).split('\n')
    expect(lines.length).toBeLessThanOrEqual(FRAME_ROWS)
    expect(lines.filter((line) => stringWidth(line) >= FRAME_COLUMNS)).toEqual([])
  })

  test('reports a client that exceeds the bound', () => {
    const greedy = new DemoClient('polite', '', async () => {})
    greedy.allowedBy.push(50)
    greedy.refused = 2
    const broken: DemoState = { ...state, clients: [greedy], elapsed: 2 }
    const found = ['polite got 50, more than the bound of 40', 'polite kept below the limit and was refused 2 times']
    expect(violationsOf(broken)).toEqual(found)
    for (const violation of found) {
      expect(frame(broken, FRAME_COLUMNS, plain)).toContain(`✗ ${violation}`)
    }
  })
})
