/** esbuild and Rollup leave out the parts of the package that a program does not use. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Release } from '../package/release.js'
import { runCommands } from './page.js'

/** The commands for the file `NAME.mjs`. All of them choose the modules for browsers. */
const BUNDLERS = {
  esbuild: 'esbuild NAME.mjs --bundle --format=esm --outdir=dist/NAME --log-level=warning',
  Rollup:
    "rollup NAME.mjs --silent --format es --dir dist/NAME --plugin 'node-resolve={browser:true}' --plugin commonjs --plugin json",
}

/** Classes and functions by the part of the package that they are for. */
const PARTS = {
  limiter: ['Limiter', 'RateLimiter', 'MemoryStore', 'LocalBackend', 'FallbackBackend', 'PermitPool', 'policySetOf'],
  engine: ['WasmMemoryLimiter', 'initSync'],
  redis: ['RedisStore', 'BatchedStore', 'Batcher', 'RedisBackend', 'ClientFlushTransport', 'PolicyRegistry'],
  updates: ['Watch', 'watchPolicies'],
  client: ['OutgoingClient', 'WaitingCalls', 'RetryBudget'],
  models: ['ModelHold', 'chargedStream'],
  tools: ['HandlerLimiter', 'Permits'],
  estimate: ['UsageEstimator', 'RecentUsage'],
  headers: ['rateLimitHeaders'],
  fetch: ['withRateLimit'],
}

type Part = keyof typeof PARTS

/** Programs, and the parts in their bundles. The others must not be there. */
const PROGRAMS: readonly (readonly [entry: string, names: readonly string[], parts: readonly Part[]])[] = [
  ['wasm', ['gcra', 'RateLimiter'], ['limiter', 'engine']],
  ['wasm', ['gcra', 'RateLimiter', 'RedisStore'], ['limiter', 'engine', 'redis']],
  ['wasm', ['gcra', 'RateLimiter', 'watchPolicies'], ['limiter', 'engine', 'updates']],
  ['estimate', ['UsageEstimator'], ['estimate']],
  ['headers', ['rateLimitHeaders'], ['headers']],
  ['fetch', ['withRateLimit'], ['fetch']],
  ['client', ['OutgoingClient'], ['client']],
  ['ai-sdk', ['rateLimit'], ['models']],
  ['mcp', ['limitTools', 'limitToolCalls'], ['client', 'tools']],
]

let release: Release
let folder: string

beforeAll(async () => {
  release = await Release.make()
  folder = await release.install('parts')
})

afterAll(() => release.remove())

describe.each(Object.entries(BUNDLERS))('%s', (bundler, command) => {
  /** The text of a program's bundle. */
  async function bundleOf(name: string, program: string): Promise<string> {
    writeFileSync(join(folder, `${name}.mjs`), program)
    await runCommands({ code: command.replaceAll('NAME', name) } as never, folder)
    const outputs = join(folder, 'dist', name)
    return readdirSync(outputs)
      .map((file) => readFileSync(join(outputs, file), 'utf8'))
      .join('\n')
  }

  test.each(PROGRAMS)('tollgate/%s: a program with %j has %j, and no other part', async (entry, names, parts) => {
    const program = `import { ${names} } from 'tollgate/${entry}'\nconsole.log(${names})`
    const text = await bundleOf(`${bundler}-${entry}-${names.length}-${names.at(-1)}`, program)
    const declared = Object.entries(PARTS).map(([part, all]) => [part, all.filter((name) => isDeclared(name, text))])
    const expected = Object.entries(PARTS).map(([part, all]) => [part, parts.includes(part as Part) ? all : []])
    expect(declared).toEqual(expected)
  })

  test('a program that uses nothing of what it imports has nothing of the package', async () => {
    const program = `
      import { RateLimiter } from 'tollgate/wasm'
      import { rateLimitHeaders } from 'tollgate/headers'
      import { OutgoingClient } from 'tollgate/client'
      console.log('no part')`
    const text = await bundleOf(`${bundler}-nothing`, program)
    expect(text.replace(/^\/\/.*$/gm, '').trim()).toMatch(/^console\.log\(["']no part["']\);?$/)
  })
})

/** Whether a bundle declares a class or a function. Bundlers number a name that is there twice. */
function isDeclared(name: string, text: string): boolean {
  return new RegExp(`\\b(?:class|function) _?${name}\\d*\\b|\\b_?${name}\\d* ?= ?class\\b`).test(text)
}
