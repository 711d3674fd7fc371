/** Error messages for a missing or unloadable addon, and the entry points that work without it. */
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PLATFORMS } from '../../ts/backends/addon.js'
import { copyPrograms, jsonOutput, link, Release, run } from './release.js'

let release: Release
/** Has the platform's package. */
let consumer: string
/** Has installed without optional dependencies. */
let bare: string

beforeAll(async () => {
  release = await Release.make()
  consumer = await release.install('consumer')
  bare = await release.install('bare', '--omit=optional')
  for (const folder of [consumer, bare]) {
    copyPrograms(folder, 'failing.cjs', 'frameworkless.mjs', 'pretend.cjs')
  }
})

afterAll(() => release.remove())

describe('without the platform package', () => {
  test('the error names the package, and the fix', async () => {
    const { name, version } = release.platform
    const { message, causes } = await jsonOutput(bare, 'failing.cjs')
    expect(message).toContain(`tollgate: the package of this platform, ${name}, is not installed.`)
    expect(message).toContain('`--omit=optional`')
    expect(message).toContain('package-lock.json')
    expect(message).toContain(`\`npm install ${name}@${version}\``)
    expect(causes).toContainEqual(expect.stringContaining(`Cannot find module '${name}'`))
  })

  test('TOLLGATE_ENGINE=wasm runs the same program with the embedded store, and says that it has no Redis', async () => {
    const program = `
      const { calendarWindow, gcra, RateLimiter, RedisStore } = require('tollgate')
      const limiter = new RateLimiter({
        rate: gcra({ limit: 1, period: '1m' }),
        day: calendarWindow({ limit: 9, every: 'day', timeZone: 'Asia/Shanghai' }),
      })
      const statuses = [1, 2].map(() => limiter.takeSync('user:42').status)
      let message
      try {
        new RedisStore('redis://127.0.0.1:9')
      } catch (error) {
        message = error.code + ': ' + error.message
      }
      console.log(JSON.stringify({ statuses, message }))`
    const chosen = (engine: string) => [`process.env.TOLLGATE_ENGINE = '${engine}'`, program].join('\n')
    expect(await jsonOutput(bare, '--eval', chosen('wasm'))).toEqual({
      statuses: ['allowed-last', 'refused'],
      message:
        'INVALID_OPTION: RedisStore needs the addon: TOLLGATE_ENGINE=wasm has the embedded store alone; ' +
        "use RedisStore.from(client) of 'tollgate/wasm'",
    })
    await expect(run('node', ['--eval', chosen('native')], bare)).rejects.toThrow('Or set TOLLGATE_ENGINE=wasm')
    await expect(run('node', ['--eval', chosen('rust')], bare)).rejects.toThrow(
      'tollgate: TOLLGATE_ENGINE must be native or wasm, got "rust"',
    )
  })

  test('a program that imports it ends with the same message', async () => {
    copyPrograms(bare, 'plain.mjs')
    await expect(run('node', ['plain.mjs'], bare)).rejects.toThrow(
      `Error: tollgate: the package of this platform, ${release.platform.name}, is not installed.`,
    )
  })

  test('the error on each platform names its package, which is the one that the loader looked for', async () => {
    expect(await Promise.all(PLATFORMS.map((platform) => pretend(bare, platform)))).toEqual(
      PLATFORMS.map((platform) => ({
        name: 'Error',
        message: expect.stringContaining(`tollgate-${platform}, is not installed`),
        causes: expect.arrayContaining([expect.stringContaining(`Cannot find module 'tollgate-${platform}'`)]),
      })),
    )
  })

  test('entry points without the addon work', async () => {
    const answers = await jsonOutput(bare, 'frameworkless.mjs')
    expect(Object.keys(answers)).toEqual([
      'ai-sdk',
      'bullmq',
      'estimate',
      'express',
      'fastify',
      'fetch',
      'headers',
      'hono',
      'koa',
      'mcp',
    ])
    link(bare, '@nestjs/common', '@nestjs/core', '@opentelemetry/api', 'reflect-metadata', 'rxjs')
    await run('node', ['--eval', "require('tollgate/nest'), require('tollgate/metrics')"], bare)
    await expect(run('node', ['--eval', "require('tollgate/express-rate-limit')"], bare)).rejects.toThrow(
      'not installed',
    )
    const program = `
      const { gcra, RateLimiter } = require('tollgate/wasm')
      const { rateLimitHeaders } = require('tollgate/headers')
      const limiter = new RateLimiter(gcra({ limit: 1, period: '1m' }))
      const decision = limiter.takeSync('user:42')
      console.log(JSON.stringify({ status: decision.status, ...rateLimitHeaders(limiter, decision) }))`
    expect(await jsonOutput(bare, '--eval', program)).toEqual({
      status: 'allowed-last',
      'RateLimit-Policy': '"default";q=1;w=60',
      RateLimit: '"default";r=0;t=60',
    })
  })
})

test.each(['linux-riscv64-gnu', 'freebsd-x64', 'sunos-x64'])(
  'on %s, which has no package, the error lists the supported platforms, and the build from source',
  async (platform) => {
    const { message } = await pretend(consumer, platform)
    expect(message).toContain(`there is no addon for this platform, ${platform}, only for ${PLATFORMS.join(', ')}.`)
    expect(message).toContain('set NAPI_RS_NATIVE_LIBRARY_PATH')
    const built = ['--library', addonIn(consumer)]
    expect(await pretend(consumer, platform, ...built)).toMatchObject({ message: 'it loaded' })
  },
)

describe('where the addon cannot be loaded', () => {
  test("the error for an invalid file contains the system's message", async () => {
    const folder = await release.install('damaged')
    copyPrograms(folder, 'failing.cjs')
    writeFileSync(addonIn(folder), 'no addon')
    const { message, causes } = await jsonOutput(folder, 'failing.cjs')
    const [, reason] = /is installed but cannot be loaded: (.*)\. The file may be damaged/.exec(String(message)) ?? []
    expect(message).toContain(release.platform.name)
    expect(reason).toContain('.node')
    expect(causes).toContain(reason)
  })

  test('the error for an older C library names the cause', async () => {
    const reason = "libc.so.6: version `GLIBC_2.99' not found (required by tollgate.node)"
    const { message } = await jsonOutput(consumer, '--require', './pretend.cjs', 'failing.cjs', '--dlopen', reason)
    expect(message).toContain(`is installed but cannot be loaded: ${reason}. The system's C library is older`)
  })

  describe.each([
    ['--no-addons', [], '--no-addons. Start it without --no-addons,'],
    [
      '--experimental-permission',
      ['--allow-fs-read=*'],
      '--permission without --allow-addons. Start it with --allow-addons,',
    ],
  ])('in a process with %s', (flag, rights, reason) => {
    const flags = [flag, ...rights]
    const evaluated = (program: string) => jsonOutput(consumer, ...flags, '--eval', program)

    test('the error names the flag, and the other engine', async () => {
      const { message } = await jsonOutput(consumer, ...flags, 'failing.cjs')
      expect(message).toContain(`Node.js loads no addons in this process, because of ${reason}`)
      expect(message).toContain(
        "set TOLLGATE_ENGINE=wasm, for a slower engine without Redis, or import 'tollgate/wasm'",
      )
      const imported = ['--input-type=module', '--eval', "import 'tollgate'"]
      await expect(run('node', [...flags, ...imported], consumer)).rejects.toThrow(`Error: ${message}`)
    })

    test('the other engine works where the environment chooses it, and by its entry point', async () => {
      const program = `
        const { gcra, RateLimiter } = require(process.env.TOLLGATE_ENGINE === 'wasm' ? 'tollgate' : 'tollgate/wasm')
        const { status } = new RateLimiter(gcra({ limit: 1, period: '1m' })).takeSync('user:42')
        console.log(JSON.stringify({ status }))`
      expect(await evaluated(program)).toEqual({ status: 'allowed-last' })
      expect(await evaluated(`process.env.TOLLGATE_ENGINE = 'wasm';${program}`)).toEqual({ status: 'allowed-last' })
    })

    test('entry points without an engine work', async () => {
      const program = `
        const types = ['client', 'estimate', 'express', 'fetch'].map((entry) => typeof require('tollgate/' + entry))
        console.log(JSON.stringify({ types }))`
      expect(await evaluated(program)).toEqual({ types: ['object', 'object', 'object', 'object'] })
    })
  })

  test("the error for a path from the environment is the loader's own", async () => {
    const { message } = await jsonOutput(
      consumer,
      '--require',
      './pretend.cjs',
      'failing.cjs',
      '--library',
      './none.node',
    )
    expect(message).toMatch(/^Cannot find native binding/)
  })
})

/** The error of a program on another platform. */
function pretend(folder: string, platform: string, ...words: string[]): Promise<Record<string, unknown>> {
  return jsonOutput(folder, '--require', './pretend.cjs', 'failing.cjs', '--platform', platform, ...words)
}

/** The addon that a consumer has installed. */
function addonIn(folder: string): string {
  const target = join(folder, 'node_modules', release.platform.name)
  return join(target, readdirSync(target).find((file) => file.endsWith('.node')) as string)
}
