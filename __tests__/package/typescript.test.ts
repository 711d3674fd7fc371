/**
 * Strict TypeScript programs in an external folder, compiled by old and new compilers that also
 * check the package's declarations.
 */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { copyPrograms, entryPoints, installed, jsonOutput, link, Release, run } from './release.js'

/** The compilers, as the manifests in this folder and its parent name them: the oldest one, and both latest ones. */
const COMPILERS = ['typescript-5.4', 'typescript', 'typescript-7']

/** All versions between them, too. */
const BETWEEN = ['typescript-5.5', 'typescript-5.6', 'typescript-5.7', 'typescript-5.8', 'typescript-5.9']

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

/** The packages whose types an entry point needs; the others need none. */
const NEEDED: Readonly<Record<string, readonly string[]>> = {
  'tollgate/express': ['@types/express', '@types/node'],
  'tollgate/fastify': ['fastify', '@types/node'],
  'tollgate/graphql': ['graphql'],
  'tollgate/hono': ['hono', '@types/node'],
  'tollgate/koa': ['@types/koa', '@types/node'],
  'tollgate/metrics': ['@opentelemetry/api'],
  'tollgate/nest': ['@nestjs/common', '@nestjs/core', '@types/node'],
  'tollgate/trpc': ['@trpc/server', '@types/node'],
}

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

/** Compilers that cannot check the declarations of those frameworks. */
const EARLY = ['typescript-5.4', 'typescript-5.5', 'typescript-5.6']

/** Programs that need no package and no types of a platform. */
const BARE = ['typed.mts', 'neutral.mts', 'peerless.mts']

const NODE16 = { module: 'node16', moduleResolution: 'node16' }
const NODENEXT = { module: 'nodenext', moduleResolution: 'nodenext', noEmit: true }
const BUNDLER = { module: 'esnext', moduleResolution: 'bundler', noEmit: true }
/** The resolution that knows no `exports`. TypeScript 6 wants to be asked twice, and 7 has it no more. */
const NODE10 = { module: 'commonjs', moduleResolution: 'node10', noEmit: true }

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
  copyPrograms(bare, 'typed.cts', 'inferred.mts', ...BARE)
  // Without "exports", module resolution needs a program in CommonJS.
  cpSync(join(bare, 'inferred.mts'), join(bare, 'inferred.ts'))
  copyPrograms(framed, ...FRAMED, ...FRAMED.map(commonJs))
})

afterAll(() => release.remove())

describe.each([...COMPILERS, ...BETWEEN])('%s', (compiler) => {
  test('compiles programs without Node types and without any peer', async () => {
    const world = { lib: ['es2022'], types: [] }
    const ignored = compiler === 'typescript' ? { ignoreDeprecations: '6.0' } : {}
    await Promise.all([
      compile(compiler, bare, [...BARE, 'typed.cts'], { ...world, ...NODE16, outDir: compiler }),
      compile(compiler, bare, [...BARE, 'typed.cts'], { ...world, ...NODENEXT }),
      compile(compiler, bare, BARE, { ...world, ...BUNDLER }),
      compiler === 'typescript-7' || compile(compiler, bare, ['typed.cts'], { ...world, ...NODE10, ...ignored }),
    ])
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

  // Programs without these frameworks must not fail because of them.
  const programs = FRAMED.filter((program) => !EARLY.includes(compiler) || !RECENT.includes(program))

  test('compiles programs that use every entry point, with the required peers', async () => {
    const all = [...programs, ...programs.map(commonJs)]
    if (BETWEEN.includes(compiler)) {
      return compile(compiler, framed, all, { ...WORLD, ...NODE16, noEmit: true })
    }
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

test.each(EARLY)(
  '%s compiles programs that use these frameworks, if it does not check their declarations',
  async (one) => {
    for (const options of [{ ...NODE16, noEmit: true }, BUNDLER]) {
      await compile(one, framed, RECENT, { ...WORLD, ...options, skipLibCheck: true })
    }
  },
)

test.each(entryPoints())('%s compiles with no other package than its own peer', async (entry) => {
  const folder = join(release.temp, entry.replaceAll('/', '-'))
  const needed = NEEDED[entry] ?? []
  mkdirSync(folder)
  cpSync(join(bare, 'node_modules'), join(folder, 'node_modules'), { recursive: true })
  link(folder, ...needed)
  const program = `import * as entry from '${entry}'\nexport const names: readonly string[] = Object.keys(entry)\n`
  writeFileSync(join(folder, 'entry.mts'), program)
  writeFileSync(join(folder, 'entry.cts'), program)
  // The declarations of the peers use types of the web.
  const lib = needed.length > 0 || entry === 'tollgate/fetch' ? ['es2022', 'dom'] : ['es2022']
  const world = { lib, types: needed.includes('@types/node') ? ['node'] : [], paths: WORLD.paths }
  await Promise.all([
    compile('typescript-7', folder, ['entry.mts', 'entry.cts'], { ...world, ...NODENEXT }),
    compile('typescript-7', folder, ['entry.mts'], { ...world, ...BUNDLER }),
  ])
})

test('tollgate/fetch needs the types of Node.js or of the web, and either is enough', async () => {
  const folder = join(release.temp, 'fetch')
  mkdirSync(folder)
  cpSync(join(bare, 'node_modules'), join(folder, 'node_modules'), { recursive: true })
  link(folder, '@types/node')
  writeFileSync(join(folder, 'entry.mts'), "export { withRateLimit } from 'tollgate/fetch'\n")
  await compile('typescript-7', folder, ['entry.mts'], { lib: ['es2022'], types: ['node'], ...NODENEXT })
  await expect(
    compile('typescript-7', folder, ['entry.mts'], { lib: ['es2022'], types: [], ...NODENEXT }),
  ).rejects.toThrow(/Cannot find name 'Request'/)
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
  const { moduleResolution } = options as { readonly moduleResolution: string }
  const name = `${compiler}-${moduleResolution}.json`
  writeFileSync(join(folder, name), JSON.stringify({ compilerOptions: { ...FLAGS, ...options }, files }))
  const tsc = join(installed(compiler), 'bin', 'tsc')
  await run('node', [tsc, '--project', name], folder)
}

function commonJs(program: string): string {
  return program.replace('.mts', '.cts')
}
