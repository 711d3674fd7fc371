/** Strict TypeScript programs in a stranger's folder, by compilers old and new, which check our declarations too. */
import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { copyPrograms, installed, link, Release, run, told } from './release.js'

/** The compilers, as the manifests beside this file and above it name them. */
const COMPILERS = ['typescript-5.4', 'typescript', 'typescript-7']

/** What a program has installed that uses all entry points. */
const PEERS = [
  '@nestjs/common',
  '@nestjs/core',
  '@opentelemetry/api',
  '@types/express',
  '@types/koa',
  '@types/node',
  'fastify',
  'hono',
]

/** Compiled together, since most of the time goes to the frameworks' own declarations. */
const FRAMED = ['middleware.mts', 'subpaths.mts', 'hono.mts']

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
  copyPrograms(bare, 'typed.mts', 'typed.cts')
  copyPrograms(framed, ...FRAMED, ...FRAMED.map(commonJs))
})

afterAll(() => release.remove())

describe.each(COMPILERS)('%s', (compiler) => {
  test('compiles a program that has no types of Node', async () => {
    const world = { lib: ['es2022'], types: [] }
    await compile(compiler, bare, ['typed.mts', 'typed.cts'], { ...world, ...NODE16, outDir: compiler })
    await compile(compiler, bare, ['typed.mts'], { ...world, ...BUNDLER })
    const expected = { smooth: { status: 'allowed', remaining: 2 }, once: 'allowed-last', error: 'INVALID_KEY' }
    for (const program of ['typed.mjs', 'typed.cjs']) {
      expect(await told(bare, join(compiler, program))).toMatchObject(expected)
    }
  })

  test('compiles programs that use every entry point, with the peers that these are for', async () => {
    // Hono's own declarations need TypeScript 5.7; what another program has no need of, it need not fail by.
    const programs = FRAMED.filter((program) => compiler !== 'typescript-5.4' || program !== 'hono.mts')
    const all = [...programs, ...programs.map(commonJs)]
    await Promise.all([
      compile(compiler, framed, all, { ...WORLD, ...NODE16, outDir: compiler }),
      compile(compiler, framed, programs, { ...WORLD, ...BUNDLER }),
    ])
    for (const program of ['middleware.mjs', 'middleware.cjs']) {
      const answers = { statuses: [200, 429], retryAfter: '60', functions: true }
      expect(await told(framed, join(compiler, program))).toEqual(answers)
    }
    for (const program of ['subpaths.mjs', 'subpaths.cjs']) {
      const answers = { remaining: 2, status: 'allowed-last', totalHits: 1 }
      expect(await told(framed, join(compiler, program))).toEqual(answers)
    }
  })
})

test('typescript-5.4 compiles a program that uses Hono, if it does not check what Hono declares', async () => {
  for (const options of [{ ...NODE16, noEmit: true }, BUNDLER]) {
    await compile('typescript-5.4', framed, ['hono.mts'], { ...WORLD, ...options, skipLibCheck: true })
  }
})

/** The frameworks' declarations are of a world with Node's and a browser's. */
const WORLD = {
  lib: ['es2022', 'dom'],
  types: ['node'],
  // @types/koa means those of this version; the package itself is of a newer one, with other types.
  paths: { 'content-disposition': [installed('@types/content-disposition')] },
}

/** Compiles programs of a folder; throws with what the compiler says if it says anything. */
async function compile(compiler: string, folder: string, files: readonly string[], options: object): Promise<void> {
  const name = `${compiler}-${'outDir' in options ? 'node16' : 'bundler'}.json`
  writeFileSync(join(folder, name), JSON.stringify({ compilerOptions: { ...FLAGS, ...options }, files }))
  const tsc = join(installed(compiler), 'bin', 'tsc')
  await run('node', [tsc, '--project', name], folder)
}

function commonJs(program: string): string {
  return program.replace('.mts', '.cts')
}
