/**
 * The TSDoc of the main entry point, of `tollgate/estimate` and of `tollgate/headers`: each export has a summary and an
 * example, and all examples compile, strictly, against the built package.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { complaintsAbout } from './compile.js'
import { type Block, pages, ROOT } from './pages.js'

/** The sources of the entry points, by the name that programs import. */
const ENTRIES: Readonly<Record<string, string>> = {
  tollgate: 'ts/index.ts',
  'tollgate/estimate': 'ts/estimate/index.ts',
  'tollgate/headers': 'ts/headers/index.ts',
}

/** The values that examples use and do not create. */
const GIVEN: Readonly<Record<string, string>> = {
  decision: `import('tollgate').Decision<'default'>`,
  generate: '(options?: { signal: AbortSignal }) => Promise<{ tokens: number }>',
  id: 'string',
  limiter: `import('tollgate').RateLimiter<import('tollgate').GcraPolicy>`,
  limiterWithTiers: `import('tollgate').RateLimiter<{ tiers: { pro: import('tollgate').GcraPolicy } }>`,
  permits: `import('tollgate').RateLimiter<import('tollgate').ConcurrencyPolicy>`,
  readFile: `typeof import('node:fs/promises').readFile`,
  store: `import('tollgate').RedisStore`,
}

interface Export {
  readonly name: string
  readonly entry: string
  readonly summary: string
  /** The texts of its examples. Those of overloads are examples of the function. */
  readonly examples: readonly string[]
}

const program = ts.createProgram(
  Object.values(ENTRIES).map((path) => join(ROOT, path)),
  { ...optionsOf('ts/tsconfig.build.json'), noEmit: true },
)
const checker = program.getTypeChecker()
const exported = Object.entries(ENTRIES).flatMap(([entry, path]) => exportsOf(entry, path))

function optionsOf(path: string): ts.CompilerOptions {
  const { config } = ts.readConfigFile(join(ROOT, path), (name) => readFileSync(name, 'utf8'))
  return ts.parseJsonConfigFileContent(config, ts.sys, join(ROOT, 'ts')).options
}

function exportsOf(entry: string, path: string): Export[] {
  const source = program.getSourceFile(join(ROOT, path))
  const symbol = source && checker.getSymbolAtLocation(source)
  if (symbol === undefined) {
    throw new Error(`${path} exports nothing`)
  }
  return checker.getExportsOfModule(symbol).map((given) => {
    const meant = given.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(given) : given
    const examples = meant.getJsDocTags(checker).filter(({ name }) => name === 'example')
    return {
      name: given.name,
      entry,
      summary: ts.displayPartsToString(meant.getDocumentationComment(checker)),
      examples: examples.map(({ text }) => ts.displayPartsToString(text)),
    }
  })
}

/** A module with an example in a function. It imports the exports in the example, and declares its other names. */
function blockOf({ name, entry }: Export, example: string, index: number): Block {
  const words = new Set(example.match(/\b\w+\b/g))
  const named = exported.filter((other) => words.has(other.name))
  // Several entry points have some of the names.
  const sources = new Map(
    [...named, ...named.filter((other) => other.entry === entry)].map((one) => [one.name, one.entry]),
  )
  const imports = [...sources].map(([name, from]) => `import { ${name} } from '${from}';`).join(' ')
  const code = `${imports} export async function example() {\n${example}\n}`
  const given = Object.entries(GIVEN).filter(([word]) => words.has(word))
  return { page: `${entry} ${name} ${index + 1}`, line: 1, language: 'ts', code, given }
}

test('every export has a summary and an example', () => {
  const lacking = exported.filter(({ summary, examples }) => summary === '' || examples.join('') === '')
  expect(lacking.map(({ entry, name }) => `${entry}: ${name}`)).toEqual([])
})

test('all examples compile', () => {
  const planted: Export = {
    name: 'planted',
    entry: 'tollgate',
    summary: '',
    examples: [`gcra({ limit: 1, perod: '1m' })`],
  }
  const blocks = [...exported, planted].flatMap((one) => one.examples.map((text, index) => blockOf(one, text, index)))
  const complaints = complaintsAbout(blocks)
  expect(complaints.filter((complaint) => !complaint.startsWith('tollgate planted'))).toEqual([])
  expect(complaints).toEqual([expect.stringMatching(/^tollgate planted 1:2 TS2561: .*'perod'/)])
})

test('types that migrating.md calls removed are not exported', () => {
  const text = pages.find(({ path }) => path === 'docs/migrating.md')?.text ?? ''
  const [, table = ''] = /^These types are no longer exported\..*\n\n((?:\|.*\n)+)/m.exec(text) ?? []
  const removed = table.split('\n').flatMap((row) => row.split('|')[1]?.match(/(?<=`)[A-Z]\w+(?=`)/g) ?? [])
  expect(removed.length).toBeGreaterThan(50)
  expect(exported.map(({ name }) => name).filter((name) => removed.includes(name))).toEqual([])
})
