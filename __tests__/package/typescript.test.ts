/**
 * Strict TypeScript programs in an external folder, compiled by old and new compilers that also
 * check the package's declarations.
 */
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { copyPrograms, installed, jsonOutput, link, Release, run } from './release.js'

/** The compilers, as the manifests in this folder and its parent name them. */
const COMPILERS = ['typescript-5.4', 'typescript', 'typescript-7']

/** The dependencies of a program that uses all entry points. */
const PEERS = [
  '@nestjs/common',
  '@nestjs/core',
  '@opentelemetry/api',
  '@trpc/server',
  '@types/express',
  '@types/koa',
  '@types/node',
  'fastify',
  'graphql',
  'hono',
]

/** Compiled together, because the frameworks' own declarations take most of the time. */
const FRAMED = ['middleware.mts', 'subpaths.mts', 'hono.mts', 'protocols.mts']

/** Programs whose frameworks' own declarations need TypeScript 5.7. */
const RECENT = ['hono.mts', 'protocols.mts']

const FLAGS = {
  strict: true,
  exactOptionalPropertyTypes: true,
  skipLibCheck: false,
  target: 'es2022',
}

const NODE16 = { module: 'node16', moduleResolution: 'node16' }
const BUNDLER = { module: 'esnext', moduleResolution: 'bundler', noEmit: true }

let release: Release
/** Has neither peers nor the types of Node. */
let bare: string
/** Has all peers. */
let framed: string

beforeAll(async () => {
  release = await Release.make()
  bare = await release.install('bare')
  framed = join(release.temp, 'framed')
  cpSync(join(bare, 'node_modules'), join(framed, 'node_modules'), { recursive: true })
  link(framed, ...PEERS)
  copyPrograms(bare, 'typed.mts', 'typed.cts', 'neutral.mts', 'inferred.mts')
  // Without "exports", module resolution needs a program in CommonJS.
  cpSync(join(bare, 'inferred.mts'), join(bare, 'inferred.ts'))
  copyPrograms(framed, ...FRAMED, ...FRAMED.map(commonJs))
})

afterAll(() => release.remove())

describe.each(COMPILERS)('%s', (compiler) => {
  test('compiles a program without Node types', async () => {
    const world = { lib: ['es2022'], types: [] }
    await compile(compiler, bare, ['typed.mts', 'typed.cts', 'neutral.mts'], { ...world, ...NODE16, outDir: compiler })
    await compile(compiler, bare, ['typed.mts', 'neutral.mts'], { ...world, ...BUNDLER })
    const expected = { smooth: { status: 'allowed', remaining: 2 }, once: 'allowed-last', error: 'INVALID_KEY' }
    for (const program of ['typed.mjs', 'typed.cjs']) {
      expect(await jsonOutput(bare, join(compiler, program))).toMatchObject(expected)
    }
  })

  test('compiles a library whose declarations name what it infers', async () => {
    const world = { lib: ['es2022'], types: [], declaration: true, emitDeclarationOnly: true }
    const toFolder = (name: string) => ({ outDir: join(`declared-${name}`, compiler) })
    await compile(compiler, bare, ['inferred.mts'], { ...world, ...NODE16, ...toFolder('node16') })
    const bundler = { ...BUNDLER, noEmit: false, ...toFolder('bundler') }
    await compile(compiler, bare, ['inferred.mts'], { ...world, ...bundler })
    // Version 7 has no `node10` any more, and version 6 warns of it.
    if (compiler !== 'typescript-7') {
      const quiet = compiler === 'typescript' ? { ignoreDeprecations: '6.0' } : {}
      const node10 = { module: 'commonjs', moduleResolution: 'node10', ...quiet, ...toFolder('node10') }
      await compile(compiler, bare, ['inferred.ts'], { ...world, ...node10 })
    }
    const declared = readFileSync(join(bare, 'declared-node16', compiler, 'inferred.d.mts'), 'utf8')
    expect(declared).toContain('limiter: import("tollgate").EmbeddedRateLimiter<import("tollgate").GcraPolicy>')
    expect(declared).not.toContain('tollgate/dist')
  })

  test('compiles programs that use every entry point, with the required peers', async () => {
    // Programs without these frameworks must not fail because of them.
    const programs = FRAMED.filter((program) => compiler !== 'typescript-5.4' || !RECENT.includes(program))
    const all = [...programs, ...programs.map(commonJs)]
    await Promise.all([
      compile(compiler, framed, all, { ...WORLD, ...NODE16, outDir: compiler }),
      compile(compiler, framed, programs, { ...WORLD, ...BUNDLER }),
    ])
    for (const program of ['middleware.mjs', 'middleware.cjs']) {
      const answers = { statuses: [200, 429], retryAfter: '60', functions: true }
      expect(await jsonOutput(framed, join(compiler, program))).toEqual(answers)
    }
    for (const program of programs.includes('protocols.mts') ? ['protocols.mjs', 'protocols.cjs'] : []) {
      const answers = { remaining: 1, again: 1, cost: 4, functions: true }
      expect(await jsonOutput(framed, join(compiler, program))).toEqual(answers)
    }
    for (const program of ['subpaths.mjs', 'subpaths.cjs']) {
      const answers = { remaining: 2, status: 'allowed-last', totalHits: 1 }
      expect(await jsonOutput(framed, join(compiler, program))).toEqual(answers)
    }
  })
})

test('typescript-5.4 compiles programs that use these frameworks, if it does not check their declarations', async () => {
  for (const options of [{ ...NODE16, noEmit: true }, BUNDLER]) {
    await compile('typescript-5.4', framed, RECENT, { ...WORLD, ...options, skipLibCheck: true })
  }
})

/** The frameworks' declarations use both Node's and the browser's types. */
const WORLD = {
  lib: ['es2022', 'dom'],
  types: ['node'],
  // @types/koa matches this version; the package itself is newer, with other types.
  paths: { 'content-disposition': [installed('@types/content-disposition')] },
}

/** Compiles programs of a folder. Throws with the compiler's output if there is any. */
async function compile(compiler: string, folder: string, files: readonly string[], options: object): Promise<void> {
  const name = `${compiler}-${'outDir' in options ? 'node16' : 'bundler'}.json`
  writeFileSync(join(folder, name), JSON.stringify({ compilerOptions: { ...FLAGS, ...options }, files }))
  const tsc = join(installed(compiler), 'bin', 'tsc')
  await run('node', [tsc, '--project', name], folder)
}

function commonJs(program: string): string {
  return program.replace('.mts', '.cts')
}
