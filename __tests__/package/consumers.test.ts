/**
 * Programs in an external folder that use the installed package: by `import`, by `require`, and
 * under Jest.
 */
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { copyPrograms, entryPoints, installed, jsonOutput, link, Release, run } from './release.js'

/** The output of every consumer. Its clock stands still. */
const DECISIONS = {
  smooth: { status: 'allowed', remaining: 2 },
  once: 'allowed-last',
  bucket: { retryAfterMs: 1000 },
  error: 'INVALID_KEY',
}

/** The dependencies of consumers that use all entry points. */
const PEERS = [
  '@nestjs/common',
  '@nestjs/core',
  '@opentelemetry/api',
  '@trpc/server',
  'graphql',
  'reflect-metadata',
  'rxjs',
]

let release: Release
let consumer: string

beforeAll(async () => {
  release = await Release.make()
  consumer = await release.install('consumer')
})

afterAll(() => release.remove())

test.each(['plain.mjs', 'plain.cjs'])('%s gets its decisions', async (program) => {
  copyPrograms(consumer, program)
  expect(await jsonOutput(consumer, program)).toEqual(DECISIONS)
})

test('a program that both imports and requires gets one class, and the same names', async () => {
  copyPrograms(consumer, 'both.mjs')
  const { sameClass, imported, required } = await jsonOutput(consumer, 'both.mjs')
  expect(sameClass).toBe(true)
  expect(imported).toEqual(required)
})

test('a program gets the same decisions from WebAssembly, and one class by import and require', async () => {
  copyPrograms(consumer, 'wasm.mjs')
  expect(await jsonOutput(consumer, 'wasm.mjs')).toEqual({ ...DECISIONS, isSame: true })
})

test('a program without frameworks gets the middlewares, the same by import and require', async () => {
  copyPrograms(consumer, 'frameworkless.mjs')
  const expected = { names: ['ipKey', 'rateLimit'], isSame: true }
  expect(await jsonOutput(consumer, 'frameworkless.mjs')).toEqual({
    'ai-sdk': { names: ['rateLimit'], isSame: true },
    bullmq: { names: ['rateLimited'], isSame: true },
    estimate: { names: ['UsageEstimator'], isSame: true },
    express: expected,
    fastify: { names: expect.arrayContaining(['default', 'ipKey', 'rateLimit']), isSame: true },
    fetch: { names: ['ipKey', 'withRateLimit'], isSame: true },
    headers: { names: ['rateLimitHeaders'], isSame: true },
    hono: expected,
    koa: expected,
    mcp: { names: ['limitToolCalls', 'limitTools'], isSame: true },
  })
})

describe('the number of files that a program loads', () => {
  /** The files of the packages that CommonJS has loaded, also on behalf of `import`. */
  const LOADED = `Object.keys(require('node:module')._cache).flatMap((file) => file.split('node_modules/')[1] ?? [])`

  test.each([
    ['require', "require('tollgate'); require('tollgate/express')"],
    ['import', "await import('tollgate'); await import('tollgate/express')"],
  ])('is six and a manifest for tollgate and tollgate/express, by %s', async (_, statements) => {
    const program = `(async () => { ${statements}; console.log(JSON.stringify(${LOADED})) })()`
    const files = JSON.parse(await run('node', ['--eval', program], consumer)) as readonly string[]
    const { name } = release.platform
    // The addon's loader reads the version of its package.
    const platform = [`${name}/package.json`, `${name}/${name.replace('-', '.')}.node`]
    const bundles = ['core', 'index', 'limiter', 'middleware/express', 'shared'].map(
      (bundle) => `tollgate/dist/${bundle}.js`,
    )
    expect([...files].sort()).toEqual([...platform, ...bundles].sort())
  })

  test.each(['estimate', 'headers'])('is two for tollgate/%s, which has no limiter of its own', async (entry) => {
    const program = `require('tollgate/${entry}'); console.log(JSON.stringify(${LOADED}))`
    const files = JSON.parse(await run('node', ['--eval', program], consumer)) as readonly string[]
    expect([...files].sort()).toEqual([`tollgate/dist/${entry}/index.js`, 'tollgate/dist/shared.js'])
  })
})

// promise: no-dependencies
test('a program without a peer that an entry point needs gets an error that names it', async () => {
  await expect(run('node', ['--eval', "require('tollgate/metrics')"], consumer)).rejects.toThrow(
    "Cannot find module '@opentelemetry/api'",
  )
})

describe('under Jest', () => {
  let framed: string

  beforeAll(() => {
    framed = join(release.temp, 'framed')
    cpSync(join(consumer, 'node_modules'), join(framed, 'node_modules'), { recursive: true })
    link(framed, ...PEERS)
  })

  test.each([
    ['CommonJS', 'jest.test.cjs', []],
    ['ECMAScript modules', 'jest.test.mjs', ['--experimental-vm-modules']],
  ])('a test in %s has every entry point, with decisions and errors of its realm', async (_, program, options) => {
    copyPrograms(framed, program)
    const jest = [join(installed('jest'), 'bin', 'jest.js'), '--config', '{}', '--rootDir', framed]
    const { success, numPassedTests } = await jsonOutput(framed, ...options, ...jest, '--json', program)
    expect({ success, numPassedTests }).toEqual({ success: true, numPassedTests: entryPoints().length + 1 })
  })
})
