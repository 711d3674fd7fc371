/**
 * The examples for newcomers, run in their own processes against the built package. They are ES
 * modules, which Jest's CommonJS could not load.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { RedisServer } from '../servers/redis-server.js'

const ROOT = join(__dirname, '..', '..')
const DEMO = join(ROOT, 'examples', 'demo', 'main.mjs')

/** Runs Node until it exits. Rejects with its stderr unless the exit code is 0. */
async function runNode(args: string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT, env: { ...process.env, ...env } })
  return stdout
}

function startNode(args: string[], env: NodeJS.ProcessEnv) {
  return spawn(process.execPath, args, {
    cwd: ROOT,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

/** The rows of the demo's summary. */
function summaryOf(stdout: string) {
  return [...stdout.matchAll(/^ {2}(\w+) +(\d+) +(\d+) +(\d+) +(\d+)$/gm)].map(([, client, ...numbers]) => {
    const [requests = NaN, allowed = NaN, refused = NaN, atMost = NaN] = numbers.map(Number)
    return { client, requests, allowed, refused, atMost }
  })
}

describe('npm run demo', () => {
  // The number of requests depends on the machine's speed, so only the polite client's refusals are
  // fixed.
  test('with REDIS_URL two server processes keep one limit together', async () => {
    const server = await RedisServer.start()
    try {
      const stdout = await runNode([DEMO], { DEMO_SECONDS: '2', REDIS_URL: server.url })
      expect(stdout).toContain('went to 2 server processes in turn')
      const [polite, , flood] = summaryOf(stdout)
      expect(polite).toMatchObject({ client: 'polite', refused: 0 })
      // A single process would have admitted as much again.
      expect(flood?.allowed).toBeLessThanOrEqual(flood?.atMost ?? 0)
      expect(flood?.allowed).toBeGreaterThan(0.8 * (flood?.atMost ?? 0))
    } finally {
      await server.stop()
    }
  })

  test('the output shows that the law holds, and a real refusal', async () => {
    const stdout = await runNode([DEMO], { DEMO_SECONDS: '2' })

    const rows = summaryOf(stdout)
    expect(rows.map((row) => row.client)).toEqual(['polite', 'bursty', 'flood'])
    for (const { client, requests, allowed, refused, atMost } of rows) {
      expect(requests).toBe(allowed + refused)
      expect(allowed).toBeGreaterThan(0)
      expect(allowed).toBeLessThanOrEqual(atMost)
      if (client === 'polite') expect(refused).toBe(0)
      if (client === 'flood') expect(refused).toBeGreaterThan(0)
      // A line of the run itself, besides the line of the summary.
      expect(stdout).toMatch(new RegExp(`^ +\\d+\\.\\d s +${client} +allowed +\\d+ +refused +\\d+$`, 'm'))
    }

    expect(stdout).toContain('HTTP/1.1 429 Too Many Requests')
    expect(stdout).toMatch(/^ +retry-after: 1$/m)
    expect(stdout).toMatch(/^ +ratelimit: "default";r=0;t=1$/m)
    expect(stdout).toMatch(/^ +ratelimit-policy: "default";q=20;w=2$/m)
    expect(stdout).toMatch(/^ +\{"error":"Too many requests","retryAfterMs":\d+\}$/m)
    // Not a terminal: no colours, no cursor movements.
    expect(stdout).not.toContain('\u001b')
  })

  test('Ctrl-C ends it cleanly', async () => {
    const demo = startNode([DEMO], { DEMO_SECONDS: '600' })
    try {
      const exited = once(demo, 'exit')
      await once(demo.stdout, 'data')
      demo.kill('SIGINT')
      const stdout = await text(demo.stdout)
      expect(await exited).toEqual([0, null])
      expect(summaryOf(stdout)).toHaveLength(3)
    } finally {
      await end(demo)
    }
  })

  test('an invalid duration is refused', async () => {
    await expect(runNode([DEMO], { DEMO_SECONDS: 'long' })).rejects.toThrow('DEMO_SECONDS')
  })
})

describe('its app', () => {
  test('answers 200, then 429, with exact headers', async () => {
    // The clock stands still unless it is moved, so every number is exact on any machine.
    const script = `
      import { once } from 'node:events'
      import { gcra, MemoryStore, RateLimiter } from 'tollgate'
      import { createApp } from './examples/demo/server.mjs'

      let now = 1_800_000_000_000
      const store = new MemoryStore({ clock: () => now })
      const server = createApp(new RateLimiter(gcra({ limit: 1, period: '10s', burst: 3 }), { store })).listen(0, '127.0.0.1')
      await once(server, 'listening')
      const answers = []
      for (const pause of [0, 0, 0, 0, 9999, 1]) {
        now += pause
        const response = await fetch('http://127.0.0.1:' + server.address().port)
        const [policy, limit, retry] = ['ratelimit-policy', 'ratelimit', 'retry-after'].map((name) => response.headers.get(name))
        answers.push({ status: response.status, policy, limit, retry, body: await response.json() })
      }
      console.log(JSON.stringify(answers))
      server.close()
      server.closeAllConnections()`
    const policy = '"default";q=3;w=30'
    const allowed = { status: 200, policy, retry: null, body: { hello: 'world' } }
    const refused = (retryAfterMs: number) => ({
      status: 429,
      policy,
      body: { error: 'Too many requests', retryAfterMs },
    })

    expect(JSON.parse(await runNode(['--input-type=module', '--eval', script]))).toEqual([
      { ...allowed, limit: '"default";r=2;t=10' },
      { ...allowed, limit: '"default";r=1;t=20' },
      { ...allowed, limit: '"default";r=0;t=30' },
      { ...refused(10_000), limit: '"default";r=0;t=10', retry: '10' },
      { ...refused(1), limit: '"default";r=0;t=1', retry: '1' },
      { ...allowed, limit: '"default";r=0;t=30' },
    ])
  })
})
