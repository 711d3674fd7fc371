/** docs/command-line.md, the commands on Redis: each example runs, and each option is described. */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { programOf } from '../../../ts/cli/run.js'
import { gcra, RateLimiter, tiers } from '../../../ts/index.js'
import { pages, ROOT } from '../../docs/pages.js'
import { openedRedis } from '../../redis/opened.js'
import { until } from '../../servers/until.js'

const PROGRAM = join(ROOT, 'dist', 'cli', 'main.js')
const NAMES = ['inspect', 'top', 'blocked', 'reset', 'block', 'unblock', 'override', 'clear-override']

const run = promisify(execFile)
const redis = openedRedis()
const { commands: all } = programOf(process, () => {})
const helps = all.map((command) => {
  let help = ''
  command.configureOutput({ writeOut: (text) => (help += text) }).outputHelp()
  return help
})
const shown = [
  ...pages.flatMap(({ blocks }) => blocks.filter(({ language }) => language === 'sh')),
  ...helps.map(codeOf),
]
const lines = shown.flatMap(({ code }) => code.split('\n')).map((line) => line.trim())
const commands = lines.filter((line) => NAMES.some((name) => line.startsWith(`npx tollgate-cli ${name} `)))
const login = {
  address: gcra({ limit: 10, period: '1h', per: 'ip' }),
  account: gcra({ limit: 20, period: '1d', per: 'account' }),
}

let folder: string

function codeOf(code: string) {
  return { code }
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-pages-'))
  writeFileSync(join(folder, 'login.json'), JSON.stringify(login))
  const api = gcra({ limit: 100, period: '1m', burst: 20 })
  const limiter = new RateLimiter(api, { store: redis.store, prefix: 'api' })
  await limiter.take('user:42', 10)
  await limiter.close()
  const logins = new RateLimiter(login, { store: redis.store, prefix: 'login' })
  await logins.take({ ip: '192.0.2.7', account: 'bob' })
  await logins.close()
  const plans = tiers({ free: gcra({ limit: 10, period: '1m' }), pro: gcra({ limit: 1_000, period: '1m' }) })
  const tiered = new RateLimiter(plans, { store: redis.store, prefix: 'plans' })
  await tiered.take('customer:7', { tier: 'pro' })
  await tiered.close()
  await until('all have registered their policies', async () => {
    return (await redis.server.command<string[]>('KEYS', '*:~policies')).length === 3
  })
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

test.each(commands)('%s', async (command) => {
  const words = command.replace('npx tollgate-cli', '"$NODE" "$PROGRAM"').replace('redis://localhost', redis.server.url)
  const { PATH = '' } = process.env
  const env = { PATH, NODE: process.execPath, PROGRAM, REDIS_URL: redis.server.url }
  const result = run('sh', ['-c', words], { cwd: folder, env })
  const { code = 0, stderr } = (await result.catch((error: { code: number; stderr: string }) => error)) as {
    code?: number
    stderr: string
  }
  // For some of their keys nothing is stored.
  expect([0, 1]).toContain(code)
  expect(stderr).toBe('')
})

test('the page describes every option, except the self-explanatory ones', () => {
  const text = pages.find(({ path }) => path === 'docs/command-line.md')?.text ?? ''
  const options = all.filter((command) => NAMES.includes(command.name())).flatMap((command) => command.options)
  const names = new Set(options.map(({ long }) => long ?? ''))
  expect(names.size).not.toBe(0)
  expect([...names].filter((name) => !text.includes(name))).toEqual([])
})
