/** Architecture rules that neither compiler nor linter can check. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import ts from 'typescript'

const ROOT = dirname(dirname(__dirname))
const SOURCE_FOLDERS = [
  'src',
  'ts',
  '__tests__',
  'tests/engine',
  'tests/benches',
  'tests/chaos',
  'examples',
  'scripts',
  'lua',
]
const SOURCE = /\.(rs|m?ts|tsx|cts|mjs|cjs|lua)$/
const MAX_LINES = 500

/** The nodes of a graph, each with its dependencies. */
type Graph = ReadonlyMap<string, ReadonlySet<string>>

const sources = knownFiles('--cached', '--others', '--exclude-standard')
  .filter((file) => SOURCE_FOLDERS.some((folder) => file.startsWith(`${folder}/`)) && SOURCE.test(file))
  .filter((file) => existsSync(at(file)))
const engine = sources.filter((file) => file.startsWith('src/'))

describe('every file', () => {
  test(`has at most ${MAX_LINES} lines`, () => {
    const lengths = sources.map((file) => ({ file, lines: read(file).split('\n').length - 1 }))
    expect(lengths.filter(({ lines }) => lines > MAX_LINES)).toEqual([])
  })

  test("contains no path of a developer's machine", () => {
    const localPath = /(?<![\w.~-])\/(?:work|home|root|Users)\/\w|\b[A-Z]:\\Users\\/
    const tracked = knownFiles().filter((file) => existsSync(at(file)))
    expect(offenders(tracked, read, localPath)).toEqual([])
  })
})

describe('the engine', () => {
  test('uses Node only in src/node/', () => {
    expect(offenders(outside('src/node/'), code, /\bnapi/)).toEqual([])
  })

  test('uses wasm-bindgen only in src/wasm/', () => {
    expect(offenders(outside('src/wasm/'), code, /\bwasm_bindgen/).filter((line) => line.startsWith('src/'))).toEqual(
      [],
    )
  })

  test('is unsafe only in src/node/', () => {
    // `\b` does not match the name of the lint, `unsafe_code`.
    expect(offenders(outside('src/node/'), code, /\bunsafe\b/)).toEqual([])
  })

  test('decides in src/algorithm/ without clock, thread, lock or store', () => {
    const pure = engine.filter((file) => file.startsWith('src/algorithm/'))
    const impure =
      /\b(std::(time|thread|io|env)|Instant|SystemTime|Mutex|RwLock|Atomic\w*|crate::(clock|memory|redis))\b/
    expect(offenders(pure, code, impure)).toEqual([])
  })

  test('has no cycle between modules', () => {
    expect(cycles(moduleGraph())).toEqual([])
  })

  test('has layers, and each depends only on earlier ones', () => {
    const layers = documentedLayers()
    const graph = moduleGraph()
    expect(layers).not.toEqual([])
    expect(layers.filter((layer) => !existsSync(at(`src/${layer}`)) && !existsSync(at(`src/${layer}.rs`)))).toEqual([])
    // A module outside the layers, such as the time, serves all of them: it comes before the first.
    const upward = pairs(graph)
      .filter(([module]) => !module.includes('/'))
      .filter(([module, known]) => layers.indexOf(known) > layers.indexOf(module))
    expect(upward.map(([module, known]) => `${module} knows ${known}`)).toEqual([])
  })
})

test('the TypeScript sources have no cycle, types included', () => {
  const files = sources.filter((file) => file.startsWith('ts/'))
  const graph = new Map(files.map((file) => [file, new Set(importsOf(file))]))
  expect(cycles(graph)).toEqual([])
})

test("the package sets timers only through ts/platform/timers.ts, which sets them outside of callers' contexts", () => {
  // The command line serves one user. `scheduler.web.ts` and others use `timers`, which has a dot before the name.
  const package_ = sources.filter((file) => /^ts\/(?!cli\/).*\.m?ts$/.test(file) && file !== 'ts/platform/timers.ts')
  const bare = /(?<![.\w#])set(Timeout|Interval|Immediate)\(|globalThis\.set|['"](node:)?timers(\/promises)?['"]/
  const declared = /^ *(readonly |async )?set(Timeout|Interval)\(run: \(\) => void, millis: number\)/gm
  const text = (file: string) => code(file).replaceAll(declared, '')
  expect(offenders(package_, text, bare)).toEqual([])
})

test('every source file that a page or a comment names exists', () => {
  const pages = knownFiles().filter((file) => file.endsWith('.md') && existsSync(at(file)))
  // A line that begins with `// src/` is the first one of a file of a user's app.
  const path = /(?<![\w./-])(?<!^\/\/ )(?:src|ts|lua|__tests__|tests)\/[\w/-]+\.(?:rs|ts|lua|mjs|cjs|md)\b/gm
  const named = [...sources, ...pages].flatMap((file) => {
    const names = read(file).match(path) ?? []
    return names.map((name) => ({ file, name }))
  })
  // NAME stands for the name of what a reader adds.
  const missing = named.filter(({ name }) => !name.includes('NAME') && !existsSync(at(name)))
  expect(missing.map(({ file, name }) => `${file}: ${name}`)).toEqual([])
})

test('the playground imports the package only by its name', () => {
  const files = sources.filter((file) => file.startsWith('examples/playground/'))
  expect(offenders(files, read, /['"](\.\.\/)+(ts|dist|wasm|native)\b/)).toEqual([])
})

/**
 * The dependencies between sibling modules of the crate. A folder's `mod.rs` and the files beside
 * it are one scope, in which a child may use its parent's names and the parent its children's. So
 * an arrow always joins two siblings: if one file of `store` names anything in `algorithm`, then
 * `store` depends on `algorithm`. A name that a `mod.rs` re-exports counts as its child's, however
 * it is reached.
 */
function moduleGraph(): Graph {
  const modules = new Map(engine.map((file) => [modulePath(file).join('/'), production(file)]))
  const graph = new Map<string, Set<string>>()
  for (const [module, text] of modules) {
    const from = module === '' ? [] : module.split('/')
    for (const path of namedPaths(text)) {
      const to = home(absolute(from, path), modules)
      const fork = from.findIndex((segment, depth) => segment !== to[depth])
      if (fork >= 0 && fork < to.length) {
        const [knower, known] = [from, to].map((path) => path.slice(0, fork + 1).join('/')) as [string, string]
        graph.set(knower, (graph.get(knower) ?? new Set()).add(known))
      }
    }
  }
  return graph
}

/** `src/memory/mod.rs` is the module `memory`, `src/lib.rs` the root. */
function modulePath(file: string): string[] {
  const path = file.slice('src/'.length, -'.rs'.length).split('/')
  return ['mod', 'lib'].includes(path.at(-1) ?? '') ? path.slice(0, -1) : path
}

/** The paths that start at `crate`, `super` or `self`, in `use` lines and elsewhere, one by one. */
function namedPaths(text: string): string[][] {
  const starts = text.matchAll(/(?<!::)\b(?:crate|super|self)::/g)
  return [...starts].flatMap(({ index }) => expand(/^[\w:]+(\{[^;]*\})?/.exec(text.slice(index))?.[0] ?? ''))
}

/** `a::{b, c::{d, e}}` is `a::b`, `a::c::d`, `a::c::e`. */
function expand(tree: string): string[][] {
  const innermost = /([\w:]*)\{([^{}]*)\}/.exec(tree)
  if (innermost) {
    const [group, prefix, names] = innermost as unknown as [string, string, string]
    return names.split(',').flatMap((name) => expand(tree.replace(group, prefix + name.trim().replace(/ as \w+$/, ''))))
  }
  return tree.split(',').map((path) => path.trim().split('::').filter(Boolean))
}

/** A path as seen from the root of the crate. */
function absolute(from: readonly string[], path: readonly string[]): string[] {
  const up = path.filter((segment) => segment === 'super').length
  const base = path[0] === 'crate' ? [] : from.slice(0, from.length - up)
  return [...base, ...path.filter((segment) => !['crate', 'super', 'self'].includes(segment))]
}

/** The module that defines the item of a path, after following re-exports. */
function home(path: readonly string[], modules: ReadonlyMap<string, string>): string[] {
  const inside = path.findIndex((_, depth) => !modules.has(path.slice(0, depth + 1).join('/')))
  if (inside < 0) {
    return [...path]
  }
  const module = path.slice(0, inside)
  const text = modules.get(module.join('/')) ?? ''
  const imports = text.matchAll(/\buse (?:self::)?(\w+)::([^;]*);/g)
  const children = [...imports]
    .filter(([, , names]) => names?.match(/\w+/g)?.includes(path[inside] ?? ''))
    .map(([, child]) => [...module, child ?? ''])
  return children.find((child) => modules.has(child.join('/'))) ?? module
}

/** The layers, in the order in which `src/lib.rs` lists them. */
function documentedLayers(): string[] {
  return [...read('src/lib.rs').matchAll(/^\/\/! \d+\. \[?`(\w+)`/gm)].map(([, layer]) => layer ?? '')
}

/** The files that a file imports, re-exports or only takes types from. */
function importsOf(file: string): string[] {
  const { importedFiles } = ts.preProcessFile(read(file), true, true)
  const relative = importedFiles.map(({ fileName }) => fileName).filter((name) => name.startsWith('.'))
  return relative.map((name) => posix.join(posix.dirname(file), name).replace(/\.(m?)js$/, '.$1ts'))
}

/** The cycles that a walk of the graph finds, as `a -> b -> a`. */
function cycles(graph: Graph): string[] {
  const found: string[] = []
  const done = new Set<string>()
  const walk = (node: string, trail: readonly string[]) => {
    if (trail.includes(node)) {
      found.push([...trail.slice(trail.indexOf(node)), node].join(' -> '))
    } else if (!done.has(node)) {
      for (const next of graph.get(node) ?? []) walk(next, [...trail, node])
      done.add(node)
    }
  }
  for (const node of graph.keys()) walk(node, [])
  return found
}

function pairs(graph: Graph): [string, string][] {
  return [...graph].flatMap(([node, known]) => [...known].map((other): [string, string] => [node, other]))
}

/** The lines in which a pattern occurs, as `file:line: text`. */
function offenders(files: readonly string[], textOf: (file: string) => string, pattern: RegExp): string[] {
  return files.flatMap((file) =>
    textOf(file)
      .split('\n')
      .map((line, index) => ({ line, location: `${file}:${index + 1}` }))
      .filter(({ line }) => pattern.test(line))
      .map(({ line, location }) => `${location}: ${line.trim()}`),
  )
}

/** The crate's modules outside of a folder, with the engine's tests and benchmarks; not its build script. */
function outside(folder: string): string[] {
  return sources.filter((file) => file.endsWith('.rs') && !file.startsWith(folder) && !file.startsWith('scripts/'))
}

/** A Rust file without its comments. Lines keep their numbers. */
function code(file: string): string {
  return read(file)
    .replace(/\/\*[\s\S]*?\*\//g, (comment) => comment.replace(/[^\n]/g, ''))
    .replace(/\/\/.*/g, '')
}

/** A Rust file without comments and tests: dependencies of tests do not count. */
function production(file: string): string {
  return code(file).replace(/^#\[cfg\(test\)\]\s*mod \w+ \{[\s\S]*?^\}/gm, '')
}

function read(file: string): string {
  return readFileSync(at(file), 'utf8')
}

function at(file: string): string {
  return join(ROOT, file)
}

/** The files that git tracks, or that its options name. */
function knownFiles(...options: readonly string[]): string[] {
  const output = execFileSync('git', ['ls-files', '-z', ...options], { cwd: ROOT, encoding: 'utf8' })
  return output.split('\0').filter((file) => file !== '')
}
