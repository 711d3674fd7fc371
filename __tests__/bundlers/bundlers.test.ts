/**
 * A service with Express, bundled as docs/bundlers.md says, and started in a folder that has only what the
 * page tells to deploy.
 */
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'
import { jsonOutput, MAIN, Release, run } from '../package/release.js'
import { ANSWERS, blocksOf, deploy, newService, runCommands } from './page.js'

let release: Release
let service: string
/** The packages of a bundle that keeps tollgate external. */
let externals: readonly string[]

beforeAll(async () => {
  release = await Release.make()
  service = await newService(release, 'service')
  externals = [MAIN, release.platform.name]
})

beforeEach(() => rmSync(join(service, 'dist'), { recursive: true, force: true }))

afterAll(() => release.remove())

test('the service works as it is', async () => {
  expect(await jsonOutput(service, 'server.mjs')).toEqual(ANSWERS)
})

describe('esbuild', () => {
  test('keeps the package external', async () => {
    await runCommands(blocksOf('esbuild')[0], service)
    expect(await jsonOutput(deploy(service, 'dist', externals), 'server.cjs')).toEqual(ANSWERS)
  })

  test.each([
    ['CommonJS', 1, 'server.cjs'],
    ['an ECMAScript module', 2, 'server.mjs'],
  ])('makes %s with the addon beside it', async (_, block, program) => {
    await runCommands(blocksOf('esbuild')[block], service)
    expect(await jsonOutput(deploy(service, 'dist'), program)).toEqual(ANSWERS)
  })

  test('fails without a setting, with the message that the page lists', async () => {
    const bare = { code: 'esbuild server.mjs --bundle --platform=node --outfile=dist/server.cjs' }
    await expect(runCommands({ ...blocksOf('esbuild')[0], ...bare } as never, service)).rejects.toThrow(
      'No loader is configured for ".node" files',
    )
  })

  test.each([
    ['CommonJS', 1, 'server.cjs'],
    ['an ECMAScript module', 2, 'server.mjs'],
  ])('%s without the addon says what to deploy', async (_, block, program) => {
    await runCommands(blocksOf('esbuild')[block], service)
    const target = deploy(service, 'dist')
    await run('sh', ['-c', 'rm *.node'], target)
    await expect(run('node', [program], target)).rejects.toThrow(
      `Error: tollgate: this program is a bundle, and the addon is a file of its own, which is neither beside the bundle nor installed. Keep \`tollgate\` external, and deploy node_modules/tollgate and node_modules/${release.platform.name}`,
    )
    const engine = "process.env.TOLLGATE_ENGINE = 'wasm'; import('./' + process.argv[1])"
    await expect(run('node', ['--eval', engine, program], target)).rejects.toThrow(
      "tollgate: TOLLGATE_ENGINE=wasm needs a file that this bundle of a program does not have, dist/wasm/engine.js. Keep `tollgate` external, or import 'tollgate/wasm'.",
    )
  })
})

test('webpack keeps the package external', async () => {
  const [config, commands] = blocksOf('webpack')
  writeFileSync(join(service, 'webpack.config.mjs'), config?.code ?? '')
  await runCommands(commands, service)
  expect(await jsonOutput(deploy(service, 'dist', externals), 'server.cjs')).toEqual(ANSWERS)
})

test('Rollup keeps the package external', async () => {
  await runCommands(blocksOf('Rollup')[0], service)
  expect(await jsonOutput(deploy(service, 'dist', externals), 'server.cjs')).toEqual(ANSWERS)
})

describe('Vite', () => {
  test('keeps dependencies external', async () => {
    const [commands] = blocksOf('Vite')
    await runCommands(commands, service)
    cpSync(join(service, 'node_modules'), join(service, 'dist', 'node_modules'), { recursive: true })
    expect(await jsonOutput(deploy(service, 'dist'), 'server.mjs')).toEqual(ANSWERS)
  })

  test('bundles the others', async () => {
    const [commands, config] = blocksOf('Vite')
    const configured = await newService(release, 'vite')
    writeFileSync(join(configured, 'vite.config.mjs'), config?.code ?? '')
    await runCommands(commands, configured)
    expect(await jsonOutput(deploy(configured, 'dist', externals), 'server.mjs')).toEqual(ANSWERS)
  })
})

test('nft finds the addon and all other files', async () => {
  const files = JSON.parse(await run('node', [join(__dirname, 'trace.mjs'), 'server.mjs'], service)) as string[]
  expect(files.filter((file) => file.startsWith(`node_modules/${MAIN}`)).sort()).toEqual(
    [
      ...['package.json', 'dist/core.js', 'dist/limiter.js', 'dist/shared.js'].map(
        (file) => `node_modules/${MAIN}/${file}`,
      ),
      ...['index', 'middleware/express', 'wasm/index'].flatMap((entry) =>
        ['js', 'mjs'].map((kind) => `node_modules/${MAIN}/dist/${entry}.${kind}`),
      ),
      ...[
        'dist/wasm/engine.js',
        'generated/wasm/engine.js',
        'generated/wasm/inlined.js',
        'generated/wasm/redis-engine.js',
        'generated/wasm/redis-inlined.js',
      ].map((file) => `node_modules/${MAIN}/${file}`),
      ...['package.json', `${release.platform.name.replace('-', '.')}.node`].map(
        (file) => `node_modules/${release.platform.name}/${file}`,
      ),
    ].sort(),
  )
  const traced = join(release.temp, 'traced')
  mkdirSync(traced)
  for (const file of files) {
    cpSync(join(service, file), join(traced, file), { recursive: true })
  }
  expect(await jsonOutput(traced, 'server.mjs')).toEqual(ANSWERS)
})

test('a single executable of Node.js finds the addon beside it', async () => {
  const [bundle, config, commands] = blocksOf('A single executable of Node.js')
  await runCommands(bundle, service)
  writeFileSync(join(service, 'sea-config.json'), config?.code ?? '')
  await runCommands(commands, service)
  rmSync(join(service, 'dist', 'server.cjs'))
  const target = deploy(service, 'dist')
  expect(JSON.parse(await run(join(target, 'server'), [], target))).toEqual(ANSWERS)
})

describe('a bundle of a part of the package', () => {
  /** The files of the package in the bundle of a program. */
  async function filesOf(program: string): Promise<string[]> {
    const { metafile } = await build({
      stdin: { contents: program, resolveDir: service },
      bundle: true,
      write: false,
      metafile: true,
      format: 'esm',
      platform: 'node',
      loader: { '.node': 'copy' },
      outdir: 'out',
      logLevel: 'silent',
    })
    const [text] = Object.values(metafile.outputs).filter(({ entryPoint }) => entryPoint !== undefined)
    return Object.entries(text?.inputs ?? {})
      .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
      .flatMap(([file]) => file.split(`node_modules/${MAIN}`)[1] ?? [])
      .sort()
  }

  test.each([
    ['client', 'OutgoingClient', 'client/index', '/dist/outgoing.js'],
    ['express', 'rateLimit', 'middleware/express'],
    ['fetch', 'withRateLimit', 'middleware/fetch'],
    ['hono', 'rateLimit', 'middleware/hono'],
    ['koa', 'rateLimit', 'middleware/koa'],
  ])('has no engine: tollgate/%s', async (entry, name, file, ...others) => {
    expect(await filesOf(`import { ${name} } from 'tollgate/${entry}'; console.log(${name})`)).toEqual([
      `/dist/${file}.js`,
      `/dist/${file}.mjs`,
      ...others,
      '/dist/shared.js',
    ])
  })

  test('has no engine, if nothing of the engine is used', async () => {
    const imports = "import { RateLimiter } from 'tollgate'; import { gcra } from 'tollgate/wasm'"
    const used = "import { OutgoingClient } from 'tollgate/client'; console.log(OutgoingClient)"
    expect(await filesOf(`${imports}\n${used}`)).toEqual(await filesOf(used))
  })

  test('has one engine, if that is used', async () => {
    const native = await filesOf("import { RateLimiter } from 'tollgate'; console.log(RateLimiter)")
    expect(native).toEqual(expect.arrayContaining(['/dist/core.js', '/dist/limiter.js']))
    expect(native.filter((file) => file.includes('wasm'))).toEqual([])
    const wasm = await filesOf("import { RateLimiter } from 'tollgate/wasm'; console.log(RateLimiter)")
    expect(wasm).toContain('/generated/wasm/inlined.js')
    expect(wasm).not.toContain('/dist/core.js')
  })
})
