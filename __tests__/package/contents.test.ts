/** The contents of the packages, and the results of the publishing tools. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { PLATFORMS } from '../../ts/backends/addon.js'
import { CLI, MAIN, npx, type PackedPackage, Release, ROOT, run } from './release.js'

let release: Release

beforeAll(async () => {
  release = await Release.make()
})

afterAll(() => release.remove())

describe('the main package', () => {
  test('has the bundles, the declarations and the documents, and nothing else', () => {
    const papers = ['CHANGELOG.md', 'LICENSE', 'README.md', 'THIRD-PARTY-LICENSES.txt', 'package.json', 'sbom.cdx.json']
    const engine = ['', 'redis-'].flatMap((prefix) => [
      `generated/wasm/${prefix}engine.js`,
      `generated/wasm/${prefix}inlined.js`,
    ])
    engine.push('generated/wasm/tollgate.wasm', 'generated/wasm/redis.wasm')
    const bundles = ['compile', 'web', 'embedded', 'embedded.workerd', 'redis', 'redis.workerd'].map(
      (name) => `dist/wasm/${name}.mjs`,
    )
    const { '.': main, './package.json': _, ...subpaths } = stagedManifest().exports
    const modules = [main, ...Object.values(subpaths)].flatMap((entry) => [
      entry?.import.default,
      entry?.require.default,
    ])
    const shared = ['core', 'limiter', 'outgoing', 'shared', 'wasm/engine'].map((name) => `dist/${name}.js`)
    const expected = [
      ...papers,
      ...engine,
      ...bundles,
      ...modules.map((file = '') => file.replace('./', '')),
      ...shared,
    ]
    const isDeclaration = (path: string) => /\.d\.m?ts$/.test(path)
    expect(paths(release.main).filter((path) => !isDeclaration(path))).toEqual(expected.sort())
    expect(paths(release.main).filter(isDeclaration)).toEqual([...reachedDeclarations()].sort())
  })

  test('has each module in one bundle', () => {
    const bundles = paths(release.main).filter((path) => /^dist\/.*\.js$/.test(path))
    const modules = bundles.flatMap((path) => {
      const text = readFileSync(join(release.stage, MAIN, path), 'utf8')
      return [...new Set(text.match(/^\/\/ ts\/.+\.ts$/gm))]
    })
    const twice = modules.filter((module, index) => modules.indexOf(module) !== index)
    expect(twice).toEqual([])
  })

  test('depends on all platform packages at its own version, and runs nothing on installation', () => {
    const manifest = stagedManifest()
    const names = PLATFORMS.map((platform) => `${MAIN}-${platform}`)
    const { version } = manifest
    expect(manifest).toHaveProperty('optionalDependencies', Object.fromEntries(names.map((name) => [name, version])))
    expect(manifest).not.toHaveProperty('dependencies')
    expect(manifest).not.toHaveProperty('scripts')
    expect(manifest).not.toHaveProperty('devDependencies')
  })

  test('has each entry point once for `import` and once for `require`, with types, even for tools without `exports`', () => {
    const { exports, typesVersions } = stagedManifest()
    const { '.': main, './package.json': itself, ...subpaths } = exports
    expect(itself).toBe('./package.json')
    expect(main).toEqual(conditions('./dist/index'))
    const stems = Object.entries(subpaths).map(([subpath, { require: { default: file } = { default: '' } }]) => {
      const stem = file.replace(/\.js$/, '')
      // Some platforms have a different file.
      const { import: imported, require: required } = exports[subpath] as Conditions
      expect({ import: imported, require: required }).toEqual(conditions(stem))
      return [subpath.slice('./'.length), [`${stem}.d.ts`]] as const
    })
    expect(typesVersions['*']).toEqual(Object.fromEntries(stems))
  })

  // promise: no-dependencies
  test('lists the frameworks of its entry points as optional peers', () => {
    const { peerDependencies, peerDependenciesMeta } = stagedManifest()
    const optional = Object.keys(peerDependencies).map((name) => [name, { optional: true }])
    expect(peerDependenciesMeta).toEqual(Object.fromEntries(optional))
  })

  test('gives web platforms no Node module, and workerd a compiled module', () => {
    const { './wasm': wasm } = stagedManifest().exports as Record<string, object>
    const web = { types: './dist/wasm/index.d.mts', default: './dist/wasm/web.mjs' }
    expect(Object.entries(wasm as object).slice(0, 3)).toEqual([
      ['workerd', web],
      ['deno', web],
      ['browser', { import: web }],
    ])
    const sourceOf = (name: string) => ({
      workerd: `./dist/wasm/${name}.workerd.mjs`,
      default: `./dist/wasm/${name}.mjs`,
    })
    expect(stagedManifest().imports).toEqual({
      '#wasm/embedded': sourceOf('embedded'),
      '#wasm/redis': sourceOf('redis'),
    })
    const bundle = readFileSync(join(release.stage, MAIN, 'dist', 'wasm', 'web.mjs'), 'utf8')
    const imported = [...bundle.matchAll(/\bfrom"([#.\w][^",]*)"/g)].map(([, from]) => from)
    expect([...new Set(imported)].sort()).toEqual([
      '#wasm/embedded',
      '#wasm/redis',
      '../../generated/wasm/engine.js',
      '../../generated/wasm/redis-engine.js',
    ])
  })

  test('lists every crate compiled into WebAssembly, with its licence text', () => {
    const text = readFileSync(join(release.stage, MAIN, 'THIRD-PARTY-LICENSES.txt'), 'utf8')
    for (const name of ['hashbrown', 'rlsf', 'siphasher', 'wasm-bindgen']) {
      expect(text).toMatch(new RegExp(`^${name} [\\d.]+: `, 'm'))
    }
    expect(text).not.toMatch(/^(napi|redis|jiff) /m)
  })

  test('passes publint', async () => {
    // The exit code is 0 even with warnings and suggestions. Only this line says that there are
    // none.
    expect(await npx('publint', 'run', release.tarball(release.main), '--strict')).toContain('All good!')
  })

  test('has types for every way to import it, according to attw', async () => {
    expect(await npx('attw', release.tarball(release.main))).toContain('No problems found')
  })
})

describe('the package of the command line', () => {
  test('has the program with what it serves, and nothing of the main package', () => {
    const papers = ['LICENSE', 'README.md', 'THIRD-PARTY-LICENSES.txt', 'package.json', 'sbom.cdx.json']
    const program = ['THIRD-PARTY-LICENSES.txt', 'main.js', 'report.css', 'report.js'].map((name) => `dist/cli/${name}`)
    const names = ['icon.svg', 'index.html', 'licences.txt', 'page.js', 'serve.mjs', 'style.css', 'worker.js']
    const playground = names.map((name) => `dist/playground/${name}`)
    expect(paths(release.cli)).toEqual([...papers, ...program, ...playground].sort())
  })

  test('is the only one with commands, and depends on exactly the main package of its version', () => {
    const { version } = stagedManifest()
    const program = 'dist/cli/main.js'
    const manifest = readManifest(join(release.stage, CLI))
    expect(manifest).toMatchObject({ version, bin: { [CLI]: program, [MAIN]: program } })
    expect(manifest).toHaveProperty('dependencies', { [MAIN]: version })
    // Two packages with one command would overwrite each other's link in node_modules/.bin.
    expect(stagedManifest()).not.toHaveProperty('bin')
  })

  test('lists every crate in the playground, with its licence text', () => {
    const text = readFileSync(join(release.stage, CLI, 'THIRD-PARTY-LICENSES.txt'), 'utf8')
    for (const name of ['hashbrown', 'rlsf', 'siphasher', 'wasm-bindgen']) {
      expect(text).toMatch(new RegExp(`^${name} [\\d.]+: `, 'm'))
    }
  })

  test('passes publint', async () => {
    expect(await npx('publint', 'run', release.tarball(release.cli), '--strict')).toContain('All good!')
  })
})

describe('the platform packages', () => {
  test("are the built ones, and the ones in the loader's error", () => {
    expect(readdirSync(join(ROOT, 'npm')).sort()).toEqual([...PLATFORMS, 'cli'].sort())
    expect(readManifest(ROOT).napi.targets).toHaveLength(PLATFORMS.length)
  })

  test('have one addon each, and the licences', () => {
    const { platform } = release
    const addon = `${MAIN}.${platform.name.slice(MAIN.length + 1)}.node`
    const papers = ['LICENSE', 'README.md', 'THIRD-PARTY-LICENSES.txt', 'package.json', 'sbom.cdx.json']
    expect(paths(platform)).toEqual([...papers, addon].sort())
  })

  test('list every crate compiled into the addon, with its licence text', () => {
    const text = readFileSync(join(release.stage, release.platform.name, 'THIRD-PARTY-LICENSES.txt'), 'utf8')
    const lock = readFileSync(join(ROOT, 'Cargo.lock'), 'utf8')
    for (const name of ['jiff', 'napi', 'redis', 'ring', 'rustls', 'tokio', 'webpki-roots']) {
      const [, version] = new RegExp(`name = "${name}"\nversion = "(.*)"`).exec(lock) ?? []
      expect(text).toContain(`\n${name} ${version}: `)
    }
    expect(text).toContain('Redistribution and use in source and binary forms')
    expect(text).not.toContain('criterion')
    expect(text).not.toContain('wasm-bindgen')
  })
})

describe('the staging', () => {
  test('prints the package sizes as npm does', () => {
    for (const { name, version, size, unpackedSize } of [release.main, release.cli, release.platform]) {
      const sizes = `${kilobytes(size)} kB packed, ${kilobytes(unpackedSize)} kB unpacked`
      expect(release.report).toContain(`${name} at ${version}: ${sizes}\n`)
    }
  })

  test.each(['README.md', 'docs/platforms.md'])('prints sizes that %s states between its markers', (page) => {
    const text = readFileSync(join(ROOT, page), 'utf8')
    const marked = text.matchAll(/<!-- size: ([\w-]+) -->([\d.]+) MB \(([\d.]+)[^)]*\)<!-- end -->/g)
    const stated = new Map([...marked].map(([, name, unpacked, packed]) => [name, [unpacked, packed].map(Number)]))
    const platform = release.platform.name.slice(MAIN.length + 1)
    const sizes = [['package', release.main] as const, [platform, release.platform] as const]
    for (const [name, { unpackedSize, size }] of sizes.filter(([name]) => name === 'package' || stated.has(name))) {
      const [unpacked, packed] = stated.get(name) ?? []
      expect(Math.abs(unpackedSize / 1e6 / Number(unpacked) - 1)).toBeLessThanOrEqual(0.1)
      expect(Math.abs(size / 1e6 / Number(packed) - 1)).toBeLessThanOrEqual(0.1)
    }
  })

  const names = () => [MAIN, CLI, release.platform.name]

  test.each([
    ['the repository of package.json', 'https://github.com/tollgate/tollgate', []],
    ['the given one, as provenance needs it', 'https://example.com/a/b', ['--repository', 'https://example.com/a/b']],
  ])('writes %s into all packages, and lets all links of the READMEs lead there', async (_, url, words) => {
    const out = words.length === 0 ? release.stage : join(release.temp, 'with-repository')
    if (words.length > 0) {
      await run('node', [join(ROOT, 'scripts', 'stage-package.mjs'), '--out', out, ...words])
    }
    const { version } = readManifest(join(out, MAIN))
    for (const name of names()) {
      const manifest = readManifest(join(out, name))
      expect(manifest).toMatchObject({ name, repository: { type: 'git', url: `git+${url}.git` } })
      expect(manifest).toMatchObject({ homepage: `${url}#readme`, bugs: `${url}/issues`, license: 'MIT' })
      expect(manifest).toMatchObject({ description: expect.stringMatching(/rate limit/i) })
      expect(manifest).toMatchObject({ keywords: expect.arrayContaining(['rate-limit', 'rate-limiter']) })
      const targets = targetsOf(readFileSync(join(out, name, 'README.md'), 'utf8'))
      // A link to a heading of the README itself needs no address.
      expect(targets.filter((target) => !/^(https:\/\/|#)/.test(target))).toEqual([])
      const files = targets.flatMap((target) => target.split(`${url}/blob/v${version}/`)[1] ?? [])
      expect(files.filter((file) => !existsSync(join(ROOT, file.replace(/#.*/, ''))))).toEqual([])
    }
    const readme = targetsOf(readFileSync(join(out, MAIN, 'README.md'), 'utf8'))
    expect(readme).toContain(`${url}/blob/v${version}/docs/operations.md`)
    expect(readme).toContain(`${url}/raw/v${version}/docs/plots/window-edge.svg`)
    const cli = targetsOf(readFileSync(join(out, CLI, 'README.md'), 'utf8'))
    expect(cli).toContain(`${url}/blob/v${version}/docs/command-line.md`)
  })

  test('fails for a release with a missing addon, and names it', async () => {
    const words = [join(ROOT, 'scripts', 'stage-package.mjs'), '--out', join(release.temp, 'all'), '--complete']
    await expect(run('node', words)).rejects.toThrow(/no addon in .* for: tollgate-/)
  })
})

/** The targets of a page's links and images. */
function targetsOf(markdown: string): string[] {
  return [...markdown.matchAll(/\]\(([^)]+)\)|^\[[^\]]+\]: (\S+)|(?:src|href)="([^"]+)"/gm)].map(
    ([, inline, reference, html]) => inline ?? reference ?? html ?? '',
  )
}

function kilobytes(bytes: number): number {
  return Math.round(bytes / 1000)
}

interface Conditions {
  readonly import: { readonly types: string; readonly default: string }
  readonly require: { readonly types: string; readonly default: string }
}

interface Manifest {
  readonly version: string
  readonly exports: Readonly<Record<string, Conditions>>
  readonly imports: Readonly<Record<string, object>>
  readonly typesVersions: { readonly '*': object }
  readonly peerDependencies: object
  readonly peerDependenciesMeta: object
  readonly napi: { readonly targets: readonly string[] }
}

function conditions(stem: string): Conditions {
  return {
    import: { types: `${stem}.d.mts`, default: `${stem}.mjs` },
    require: { types: `${stem}.d.ts`, default: `${stem}.js` },
  }
}

function stagedManifest(): Manifest {
  return readManifest(join(release.stage, MAIN))
}

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
}

/** The declarations that the entry points reach by imports. Each must be in the package. */
function reachedDeclarations(): Set<string> {
  const { './package.json': _, ...entries } = stagedManifest().exports
  const types = Object.values(entries).flatMap((entry) => [entry.import.types, entry.require.types])
  const reached = new Set(types.map((path) => path.replace('./', '')))
  for (const path of reached) {
    const text = readFileSync(join(release.stage, MAIN, path), 'utf8')
    for (const [, from = ''] of text.matchAll(/(?:from|import|import\()\s*['"](\.[^'"]+)['"]/g)) {
      reached.add(posix.join(posix.dirname(path), from.replace(/\.(m?)js$/, '.d.$1ts')))
    }
  }
  return reached
}

function paths({ files }: PackedPackage): string[] {
  return files.map(({ path }) => path).sort()
}
