/**
 * A bare number below 1,000 means milliseconds but may have been meant as seconds: the process
 * warns once.
 */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { tollgate } from '../cli/command.js'

const ROOT = JSON.stringify(join(__dirname, '..', '..', 'dist'))

/** The warnings that a program prints. */
async function warned(program: string, module = 'index.js'): Promise<string[]> {
  const names = '{ gcra, tokenBucket, leakyBucket, fixedWindow, slidingWindow, slidingCounter, slidingLog, '
  const head = `const ${names} MemoryStore, RateLimiter } = require(${ROOT} + '/${module}');`
  const { stderr } = await promisify(execFile)('node', ['-e', `${head} (async () => { ${program} })()`])
  // Node.js prints the detail of a warning below it.
  const text = stderr.replace(/^(\(node:.*)\nSee docs\/troubleshooting\.md#tollgate_short_duration$/gm, '$1')
  return text.split('\n').filter((line) => line !== '' && !line.startsWith('(Use `node --trace-warnings'))
}

const line = (text: string) => expect.stringMatching(new RegExp(`^\\(node:\\d+\\) ${escaped(text)}$`))
const escaped = (text: string) => text.replace(/[[\]()]/g, '\\$&')

/** The warning about an option. */
const of = (option: string, value: number) =>
  line(
    `[TOLLGATE_SHORT_DURATION] TollgateWarning: ${option} is ${value} milliseconds: ` +
      `write '${value}s' if seconds are meant, and '${value}ms' if not`,
  )

/** `npm test` leaves WebAssembly out, as `operations/stores.ts` does. */
const { TOLLGATE_TEST_WASM } = process.env

const MODULES =
  TOLLGATE_TEST_WASM === 'only'
    ? ['wasm/index.js']
    : ['index.js', ...(TOLLGATE_TEST_WASM === 'off' ? [] : ['wasm/index.js'])]

test.each(MODULES)('one warning for each option of each function: %s', async (module) => {
  const program = `
    for (const period of [60, 1, 999]) {
      new RateLimiter(gcra({ limit: 1, period }))
      tokenBucket({ capacity: 1, refill: { tokens: 1, every: period } })
      leakyBucket({ capacity: 1, leak: { units: 1, every: period } })
      for (const window of [fixedWindow, slidingWindow, slidingCounter, slidingLog]) window({ limit: 1, window: period })
      slidingLog({ limits: { a: { limit: 1, window: period } }, precision: 1 })
    }
    const limiter = new RateLimiter(gcra({ limit: 100, period: '1h' }))
    for (const key of ['a', 'b']) {
      await limiter.block(key, 30)
      await limiter.override(key, { period: 10 }, { ttl: 7 })
      await limiter.reserve(key, 1, { ttl: 60 })
    }
    const bucket = new RateLimiter({ a: tokenBucket({ capacity: 1, refill: { tokens: 1, every: '1h' } }) })
    await bucket.override('a', { a: { refill: { every: 5 } } }, { ttl: '1m' })`
  expect(await warned(program, module)).toEqual([
    of('gcra: period', 60),
    of('tokenBucket: refill.every', 60),
    of('leakyBucket: leak.every', 60),
    of('fixedWindow: window', 60),
    of('slidingWindow: window', 60),
    of('slidingCounter: window', 60),
    of('slidingLog: window', 60),
    of('slidingLog: limits.a.window', 60),
    of('block: duration', 30),
    of('override: period', 10),
    of('override: ttl', 7),
    of('reserve: ttl', 60),
    of('override: a.refill.every', 5),
  ])
})

test('no warning for values with a unit, fractions, a second or more, or invalid values', async () => {
  const program = `
    for (const period of ['60ms', '1s', '0.5ms', 59.5, 1_000, 60_000]) {
      const policy = gcra({ limit: 9, period })
      const limiter = new RateLimiter(policy)
      // A policy that is already made has milliseconds.
      new RateLimiter({ ...policy })
      new RateLimiter(JSON.parse(JSON.stringify(policy)))
      await limiter.override('a', { limit: 5 }, { ttl: '60ms' })
      await limiter.block('a', period)
    }
    slidingLog({ limits: { a: { limit: 1, window: '1s' } }, precision: 100 })
    for (const period of [0, -5, NaN]) try { gcra({ limit: 1, period }) } catch {}
    const { TollgateStore } = require(${ROOT} + '/middleware/express-rate-limit.js')
    new TollgateStore().init({ windowMs: 60 })`
  expect(await warned(program)).toEqual([])
})

test('the command line warns about a policy with a length without a unit', async () => {
  const simulate = (...policies: string[]) => {
    const words = policies.flatMap((policy) => ['--policy', policy])
    return tollgate(['simulate', '-', ...words, '--key', 'ip'], {
      stdin: '192.0.2.1 - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 1\n',
    })
  }
  const { code, stderr } = await simulate('gcra limit=1 period=60', 'gcra limit=2 period=30')
  const warning = (policy: string, value: number) =>
    `TollgateWarning: --policy "${policy}": period is ${value} milliseconds: ` +
    `write '${value}s' if seconds are meant, and '${value}ms' if not`
  expect([code, stderr.match(/TollgateWarning.*/g)]).toEqual([
    0,
    [warning('gcra limit=1 period=60', 60), warning('gcra limit=2 period=30', 30)],
  ])
  expect((await simulate('gcra limit=1 period=60ms')).stderr).not.toMatch('Warning')
})

test('on a platform without process the warning goes to the console', async () => {
  const program = `
    globalThis.process = undefined
    gcra({ limit: 1, period: 60 })
    gcra({ limit: 1, period: 60 })`
  expect(await warned(program, MODULES.at(-1))).toEqual([
    "(TOLLGATE_SHORT_DURATION) TollgateWarning: gcra: period is 60 milliseconds: write '60s' if seconds are meant, and '60ms' if not",
    'See docs/troubleshooting.md#tollgate_short_duration',
  ])
})
