/**
 * What npm would publish, packed, installed in a stranger's folder and used there.
 *
 * It needs no registry: an optional dependency that cannot be had is skipped, offline too.
 */
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const ROOT = join(__dirname, '..')
const CONSUMERS = join(__dirname, 'package')
const MAIN = 'tollgate'
const TSC = require.resolve('typescript/bin/tsc')

/** What a program has installed that uses all middlewares. */
const FRAMEWORKS = ['@nestjs/common', '@nestjs/core', '@types/express', '@types/koa', '@types/node', 'fastify', 'hono']

/** What every consumer prints; its clock stands still. */
const DECISIONS = {
  smooth: { status: 'allowed', remaining: 2 },
  once: 'allowed-last',
  bucket: { retryAfterMs: 1000 },
  error: 'INVALID_KEY',
}

interface Packed {
  readonly name: string
  readonly filename: string
  readonly files: readonly { readonly path: string }[]
}

const temp = mkdtempSync(join(tmpdir(), 'tollgate-package-'))
const stage = join(temp, 'stage')
const consumer = join(temp, 'consumer')

let main: Packed
let platforms: readonly Packed[]

beforeAll(async () => {
  await run('node', [join(ROOT, 'scripts', 'stage-package.mjs'), '--out', stage])
  const packed = await Promise.all(readdirSync(stage).map(pack))
  main = only(packed.filter(({ name }) => name === MAIN))
  platforms = packed.filter(({ name }) => name !== MAIN)
  await install(consumer, main, platforms)
  cpSync(CONSUMERS, consumer, { recursive: true })
})

afterAll(() => rmSync(temp, { recursive: true, force: true }))

describe('the main package', () => {
  test('holds what the sources compile to, the loader and the papers, and nothing else', () => {
    const papers = ['CHANGELOG.md', 'LICENSE', 'README.md', 'package.json']
    const expected = [...papers, 'native.js', 'native.d.ts', ...readSources().flatMap(outputsOf)]
    expect(paths(main)).toEqual(expected.sort())
  })

  test('asks for all platform packages at its own version, and runs nothing on installation', () => {
    const manifest = JSON.parse(readFileSync(join(stage, MAIN, 'package.json'), 'utf8'))
    const names = readdirSync(join(ROOT, 'npm')).map((platform) => `${MAIN}-${platform}`)
    expect(manifest).toHaveProperty('optionalDependencies', Object.fromEntries(names.map((n) => [n, manifest.version])))
    expect(manifest).not.toHaveProperty('scripts')
    expect(manifest).not.toHaveProperty('devDependencies')
  })

  test('is well formed, says publint', async () => {
    // It answers 0 to warnings and suggestions; only this line says that there are none.
    expect(await npx('publint', 'run', join(temp, main.filename), '--strict')).toContain('All good!')
  })

  test('has types for every way to import it, says attw', async () => {
    expect(await npx('attw', join(temp, main.filename))).toContain('No problems found')
  })
})

test('a platform package holds one addon', () => {
  for (const platform of platforms) {
    const addon = `${MAIN}.${platform.name.slice(MAIN.length + 1)}.node`
    expect(paths(platform)).toEqual(['LICENSE', 'README.md', 'package.json', addon].sort())
  }
})

describe('a consumer', () => {
  test.each(['plain.mjs', 'plain.cjs'])('%s gets its decisions', async (program) => {
    expect(await runProgram(consumer, program)).toEqual(DECISIONS)
  })

  test('that imports and requires gets the same class and the same names', async () => {
    const { sameClass, imported, required } = await runProgram(consumer, 'both.mjs')
    expect(sameClass).toBe(true)
    expect(imported).toEqual(required)
  })

  test('in TypeScript compiles with Node resolution, and gets its decisions', async () => {
    await compile('typed.mts', 'typed.cts', '--module', 'node16', '--outDir', '.')
    expect(await runProgram(consumer, 'typed.mjs')).toEqual(DECISIONS)
    expect(await runProgram(consumer, 'typed.cjs')).toEqual(DECISIONS)
  })

  test('in TypeScript compiles with a bundler resolution', async () => {
    await compile('typed.mts', '--module', 'esnext', '--moduleResolution', 'bundler', '--noEmit')
  })

  test('of subpaths compiles and runs with the peers that it has, and others do without those', async () => {
    await expect(run('node', ['--eval', "require('tollgate/metrics')"], consumer)).rejects.toThrow(
      "Cannot find module '@opentelemetry/api'",
    )
    const peer = join('node_modules', '@opentelemetry', 'api')
    cpSync(join(ROOT, peer), join(consumer, peer), { recursive: true })
    // Its types know a console, as the DOM's do.
    await compile('subpaths.mts', 'subpaths.cts', '--lib', 'es2022,dom', '--module', 'node16', '--outDir', '.')
    for (const program of ['subpaths.mjs', 'subpaths.cjs']) {
      expect(await runProgram(consumer, program)).toEqual({ remaining: 2, status: 'allowed-last', totalHits: 1 })
    }
  })

  test('without frameworks gets the middlewares, the same by import and require', async () => {
    const told = await runProgram(consumer, 'frameworkless.mjs')
    const expected = { names: ['ipKey', 'rateLimit'], isSame: true }
    expect(told).toEqual({
      express: expected,
      fastify: { names: expect.arrayContaining(['default', 'ipKey', 'rateLimit']), isSame: true },
      fetch: { names: ['ipKey', 'withRateLimit'], isSame: true },
      hono: expected,
      koa: expected,
    })
  })

  test('in TypeScript with the frameworks gets the middlewares, and their types', async () => {
    const framed = join(temp, 'framed')
    cpSync(join(consumer, 'node_modules'), join(framed, 'node_modules'), { recursive: true })
    for (const name of FRAMEWORKS) {
      mkdirSync(dirname(join(framed, 'node_modules', name)), { recursive: true })
      symlinkSync(join(ROOT, 'node_modules', name), join(framed, 'node_modules', name), 'junction')
    }
    for (const program of ['middleware.mts', 'middleware.cts']) {
      cpSync(join(CONSUMERS, program), join(framed, program))
    }
    // The frameworks' own declarations are theirs to check, and are of a world with Node's and a browser's.
    const compiler = ['--strict', '--exactOptionalPropertyTypes', '--skipLibCheck', '--target', 'es2022']
    const world = ['--lib', 'es2022,dom', '--module', 'node20', '--outDir', '.']
    await run('node', [TSC, 'middleware.mts', 'middleware.cts', ...compiler, ...world], framed)
    for (const program of ['middleware.mjs', 'middleware.cjs']) {
      const told = await runProgram(framed, program)
      expect(told).toEqual({ statuses: [200, 429], retryAfter: '60', functions: true })
    }
  })

  test('without the platform package fails at once, and is told why', async () => {
    const bare = join(temp, 'bare')
    await install(bare, main, [])
    cpSync(join(CONSUMERS, 'plain.cjs'), join(bare, 'plain.cjs'))
    await expect(runProgram(bare, 'plain.cjs')).rejects.toThrow(
      /Cannot find native binding|Cannot find module 'tollgate-/,
    )
  })
})

/** Packs a staged package into the temporary folder. */
async function pack(name: string): Promise<Packed> {
  const answer = await npm(join(stage, name), 'pack', '--json', '--ignore-scripts', '--pack-destination', temp)
  return only(JSON.parse(answer) as Packed[])
}

/** Installs tarballs in a folder of their own; npm picks the platform's, as it does from the registry. */
async function install(folder: string, main: Packed, platforms: readonly Packed[]): Promise<void> {
  const fileOf = ({ name, filename }: Packed) => [name, `file:../${filename}`] as const
  mkdirSync(folder)
  const manifest = {
    private: true,
    dependencies: Object.fromEntries([fileOf(main)]),
    optionalDependencies: Object.fromEntries(platforms.map(fileOf)),
  }
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
  // An empty cache: what this machine once fetched must make no difference.
  await npm(folder, 'install', '--offline', '--cache', join(temp, 'cache'), '--no-audit', '--no-fund')
}

/** The strictest that a consumer compiles with: it checks our types, and has none of Node's. */
function compile(...args: string[]): Promise<string> {
  const strict = ['--strict', '--exactOptionalPropertyTypes', '--skipLibCheck', 'false']
  const language = ['--target', 'es2022', '--lib', 'es2022']
  return run('node', [TSC, ...strict, ...language, ...args], consumer)
}

async function runProgram(folder: string, program: string): Promise<Record<string, unknown>> {
  return JSON.parse(await run('node', [program], folder)) as Record<string, unknown>
}

/** Runs a tool that `npm ci` has installed here. */
function npx(...args: string[]): Promise<string> {
  return npm(ROOT, 'exec', '--no', '--', ...args)
}

function npm(cwd: string, ...args: string[]): Promise<string> {
  return process.platform === 'win32' ? run('npm.cmd', args, cwd, true) : run('npm', args, cwd)
}

/** What a command printed; throws with all that it printed if it fails. */
async function run(command: string, args: readonly string[], cwd = ROOT, shell = false): Promise<string> {
  try {
    return (await promisify(execFile)(command, args, { cwd, shell })).stdout
  } catch (error) {
    const { message, stdout } = error as Error & { stdout: string }
    throw new Error(`${message}\n${stdout}`)
  }
}

function readSources(): string[] {
  const names = readdirSync(join(ROOT, 'ts'), { recursive: true, encoding: 'utf8' })
  return names.map((name) => name.replaceAll('\\', '/')).filter((name) => /\.m?ts$/.test(name))
}

/** `a.mts` becomes `dist/a.mjs` and `dist/a.d.mts`. */
function outputsOf(source: string): string[] {
  const [, stem, m] = /^(.*)\.(m?)ts$/.exec(source) ?? []
  return [`dist/${stem}.${m}js`, `dist/${stem}.d.${m}ts`]
}

function paths({ files }: Packed): string[] {
  return files.map(({ path }) => path).sort()
}

function only<T>(items: readonly T[]): T {
  expect(items).toHaveLength(1)
  return items[0] as T
}
