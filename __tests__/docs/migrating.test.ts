/**
 * docs/migrating.md: each pair of programs has the same behaviour, and every option of the peers
 * has a row.
 */
import { buildSync } from 'esbuild'
import { Redis } from 'ioredis'
import ts from 'typescript'
import * as client from '../../ts/client/index.js'
import * as tollgate from '../../ts/index.js'
import { RedisServer } from '../servers/redis-server.js'
import { type Block, pages } from './pages.js'
import { type Exports, PAGE, pairs, serveExpress, serveNest, statusesOf, upstashOver } from './peers.js'
import { run } from './run.js'

let server: RedisServer
let redis: Redis

beforeAll(async () => {
  server = await RedisServer.start()
  redis = new Redis(server.url)
})

beforeEach(() => server.command('FLUSHALL'))

afterAll(async () => {
  await redis.quit()
  await server.stop()
})

/** Runs a program of the page. */
async function exportsOf(block: Block): Promise<Exports> {
  const fromEnv = () => upstashOver(redis)
  const modules = {
    '@upstash/redis': { Redis: { fromEnv } },
    'p-limit': commonJsOf('p-limit'),
    'p-throttle': commonJsOf('p-throttle'),
    ...(isPaced(block) ? ON_FAKED_TIMERS : {}),
  }
  const { exports } = await run<Exports>(block, { redisUrl: server.url, modules })
  return exports
}

/** A package that has only ES modules, which the programs of this test cannot load. */
function commonJsOf(name: string): unknown {
  const { outputFiles } = buildSync({
    stdin: { contents: `export * from '${name}'; export { default } from '${name}'`, resolveDir: __dirname },
    bundle: true,
    write: false,
    platform: 'node',
    format: 'cjs',
  })
  const module = { exports: {} }
  new Function('module', 'require', (outputFiles[0] as { readonly text: string }).text)(module, require)
  return module.exports
}

/** The behaviour of a program that its users can see. */
async function behaviourOf(block: Block): Promise<unknown> {
  if (isPaced(block)) {
    // The timers of the jobs and of what paces them. Promises settle as ever.
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'clearImmediate', 'queueMicrotask'] })
  }
  const { admit, run: runJob, app, AppModule, close } = await exportsOf(block)
  try {
    if (admit !== undefined) {
      const answers = await Promise.all(Array.from({ length: 130 }, () => admit('ann')))
      return { admitted: answers.filter((isAdmitted) => isAdmitted).length }
    }
    if (runJob !== undefined) {
      return await paceOf(runJob)
    }
    const served =
      app !== undefined ? await serveExpress(app) : await serveNest(AppModule as NonNullable<typeof AppModule>)
    try {
      const right = await statusesOf(`${served.url}/?password=right`, 4)
      return { right, wrong: await statusesOf(`${served.url}/?password=wrong`, 6) }
    } finally {
      await served.close()
    }
  } finally {
    await close?.()
    jest.useRealTimers()
  }
}

/** Whether a program runs jobs at a pace. */
function isPaced({ code }: Block): boolean {
  return code.includes('export function run')
}

/** This package on faked timers, by which the peers go. Otherwise it would use those of the platform. */
const clock = () => Date.now()
const ON_FAKED_TIMERS = {
  tollgate: {
    ...tollgate,
    RateLimiter: new Proxy(tollgate.RateLimiter, {
      construct: (Limiter, [policy]) => new Limiter(policy, { store: new tollgate.MemoryStore({ clock }) }),
    }),
  },
  'tollgate/client': {
    ...client,
    OutgoingClient: new Proxy(client.OutgoingClient, {
      construct: (Client, [options]) => new Client({ ...options, clock }),
    }),
  },
}

/**
 * The number of jobs that start before the first pause, whether there is a pause between all jobs,
 * and how many run at a time, up to three. The timers are faked: no time passes.
 */
async function paceOf(runJob: NonNullable<Exports['run']>): Promise<unknown> {
  const begun: number[] = []
  const calledAt = Date.now()
  let [running, most, hasEnded] = [0, 0, false]
  const job = async () => {
    begun.push(Date.now())
    most = Math.max(most, ++running)
    await new Promise((resolve) => setTimeout(resolve, 10))
    running--
  }
  const jobs = Promise.allSettled(Array.from({ length: 42 }, () => runJob(job))).then((results) => {
    hasEnded = true
    return results
  })
  while (!hasEnded) {
    await jest.advanceTimersByTimeAsync(1)
  }
  expect((await jobs).filter(({ status }) => status === 'rejected')).toEqual([])
  // The pauses of a reservoir are at least half a second.
  const firstPause = begun.findIndex((at, index) => at - (begun[index - 1] ?? at) > 150)
  const arePaced = (begun.at(-1) ?? 0) - calledAt >= 41 * 20 - 5
  return { atOnce: firstPause === -1 ? 'one by one' : firstPause, arePaced, most: Math.min(most, 3) }
}

test('every peer has a pair of programs', () => {
  const peers = [
    'rate-limiter-flexible',
    'express-rate-limit',
    '@upstash/ratelimit',
    'bottleneck',
    'p-limit',
    'p-throttle',
    '@nestjs/throttler',
  ]
  const imported = pairs.map(({ before }) => peers.filter((peer) => before.code.includes(`from '${peer}'`)))
  expect(new Set(imported.flat())).toEqual(new Set(peers))
  expect(pairs.every(({ after }) => !peers.some((peer) => after.code.includes(`from '${peer}'`)))).toBe(true)
})

test.each(pairs.map((pair) => ({ name: `${PAGE}:${pair.line}`, ...pair })))(
  '$name does the same before and after',
  async ({ before, after }) => {
    const was = await behaviourOf(before)
    await server.command('FLUSHALL')
    expect(await behaviourOf(after)).toEqual(was)
    expect(was).not.toEqual({ admitted: 130 })
    expect(was).not.toEqual({ admitted: 0 })
  },
)

/** The peers' options, from their own types. */
const OPTIONS: Readonly<Record<string, string>> = {
  'From rate-limiter-flexible': `ConstructorParameters<typeof import('rate-limiter-flexible').RateLimiterRedis>[0]`,
  'From express-rate-limit': `import('express-rate-limit').Options`,
  'From @upstash/ratelimit': `import('@upstash/ratelimit').RatelimitConfig & NonNullable<Parameters<import('@upstash/ratelimit').Ratelimit['limit']>[1]>`,
  'From bottleneck': `import('bottleneck').default.ConstructorOptions & import('bottleneck').default.JobOptions`,
  'From @nestjs/throttler': `Exclude<import('@nestjs/throttler').ThrottlerModuleOptions, unknown[]> & Exclude<import('@nestjs/throttler').ThrottlerModuleOptions, { throttlers: unknown }>[number]`,
}

test('every option of the peers has a row', () => {
  const names = propertiesOf(Object.values(OPTIONS))
  const missing = Object.keys(OPTIONS).flatMap((section, index) => {
    const expected = names[index] ?? []
    expect(expected).not.toEqual([])
    const documented = firstCellsOf(section).join(' ')
    return expected
      .filter((name) => !new RegExp(`(?<!\\w)${name}(?!\\w)`).test(documented))
      .map((name) => `${section}: ${name}`)
  })
  expect(missing).toEqual([])
})

/** The first cells of the rows in a section's tables. */
function firstCellsOf(section: string): string[] {
  const page = pages.find(({ path }) => path === PAGE)
  const text = page?.text.split(/^## /m).find((part) => part.startsWith(`${section}\n`)) ?? ''
  return text.split('\n').flatMap((line) => /^\| (.*?) \|/.exec(line)?.[1] ?? [])
}

/** The names of the types' properties, as TypeScript reports them. */
function propertiesOf(types: readonly string[]): string[][] {
  const options = {
    module: ts.ModuleKind.Node20,
    types: ['node'],
    skipLibCheck: true,
    strict: true,
    esModuleInterop: true,
  }
  const name = `${__dirname}/options.mts`
  const text = types.map((type, index) => `export declare const options${index}: ${type}`).join('\n')
  const host = ts.createCompilerHost(options)
  const { fileExists, readFile } = host
  host.fileExists = (file) => file === name || fileExists(file)
  host.readFile = (file) => (file === name ? text : readFile(file))
  const program = ts.createProgram([name], options, host)
  const source = program.getSourceFile(name) as ts.SourceFile
  expect(program.getSemanticDiagnostics(source).map(({ messageText }) => messageText)).toEqual([])
  const checker = program.getTypeChecker()
  const symbols = checker.getExportsOfModule(checker.getSymbolAtLocation(source) as ts.Symbol)
  return symbols.map((symbol) => checker.getPropertiesOfType(checker.getTypeOfSymbol(symbol)).map(({ name }) => name))
}
