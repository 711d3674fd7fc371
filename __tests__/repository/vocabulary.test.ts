/** Type names are unique, and no name or text has a term that scripts/retired-names.json lists. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'

const ROOT = dirname(dirname(__dirname))
const MAP = readFileSync(join(ROOT, 'ARCHITECTURE.md'), 'utf8')

/** Names that no type, file or function may have, and phrases that no text may have. */
const retired: { readonly names: readonly string[]; readonly phrases: readonly string[] } = JSON.parse(
  readFileSync(join(ROOT, 'scripts', 'retired-names.json'), 'utf8'),
)

/** A name that a file declares. */
interface Declared {
  readonly name: string
  readonly file: string
}

const listed = execFileSync(
  'git',
  ['ls-files', '-z', '--cached', '--others', '--exclude-standard', 'src', 'lua', 'ts'],
  {
    cwd: ROOT,
    encoding: 'utf8',
  },
)
const files = listed.split('\0').filter((file) => /\.(rs|lua|m?ts)$/.test(file) && existsSync(join(ROOT, file)))
const textOf = (file: string) => readFileSync(join(ROOT, file), 'utf8')

/** A file's text without tests: a test's helper types are seen nowhere else. */
function production(file: string): string {
  return /\/tests\.rs$/.test(file) ? '' : textOf(file).replace(/^#\[cfg\(test\)\]\nmod tests \{\n[\s\S]*?^\}/gm, '')
}

function declared(pattern: RegExp, extension: string): Declared[] {
  return files
    .filter((file) => file.endsWith(extension))
    .flatMap((file) => [...production(file).matchAll(pattern)].map(([, name = '']) => ({ name, file })))
}

/** An indented type that is public is declared by a macro. */
const RUST_TYPE = /^(?: *pub(?:\([a-z: ]+\))? )?(?:struct|enum|union|trait|type) (\w+)/gm
const TS_TYPE = /^(?:export )?(?:default )?(?:declare )?(?:abstract )?(?:class|interface|type|enum) (\w+)/gm

const rustTypes = declared(RUST_TYPE, '.rs')
const tsTypes = declared(TS_TYPE, 'ts')

const FUNCTIONS: readonly (readonly [extension: string, pattern: RegExp])[] = [
  ['.rs', /\bfn (\w+)/g],
  ['.ts', /\bfunction (\w+)/g],
  ['.ts', /^ {2}(?:(?:private|protected|static|async|get|set|readonly) )*#?(\w+)\(/gm],
  ['.lua', /\bfunction (\w+)/g],
]

const functions = FUNCTIONS.flatMap(([extension, pattern]) => declared(pattern, extension))

/** The names that more than one file declares, with those files. */
function duplicates(types: readonly Declared[]): string[] {
  const places = new Map<string, Set<string>>()
  for (const { name, file } of types) places.set(name, (places.get(name) ?? new Set()).add(file))
  return [...places].filter(([, all]) => all.size > 1).map(([name, all]) => `${name}: ${[...all].sort().join(', ')}`)
}

/** The names that an entry point exports. */
function exportsOf(file: string): Set<string> {
  const lists = textOf(file).matchAll(/^export (?:type )?\{([^}]*)\}/gm)
  return new Set([...lists].flatMap(([, names = '']) => names.replace(/\btype /g, '').match(/\w+/g) ?? []))
}

test('no two Rust modules define a type of the same name', () => {
  expect(duplicates(rustTypes)).toEqual([])
})

test('no two TypeScript modules define a type of the same name, unless both entry points export it', () => {
  const [native, wasm] = [exportsOf('ts/index.ts'), exportsOf('ts/wasm/index.ts')]
  const isTwin = ({ name, file }: Declared) => file.startsWith('ts/wasm/') && native.has(name) && wasm.has(name)
  expect(duplicates(tsTypes.filter((type) => !isTwin(type)))).toEqual([])
})

/** `FlushTransport`, `flush-transport` and `flush_transport` are `flush` and `transport`. */
function wordsOf(name: string): string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
}

/** BullMQ calls each task of its workers a job. */
const isOfBullmq = (word: string, file: string) => word === 'job' && file.startsWith('ts/bullmq/')

test('no type and no file has a retired word in its name', () => {
  const isRetired = (name: string, file = '') =>
    wordsOf(name).some((word) => retired.names.includes(word) && !isOfBullmq(word, file))
  const types = [...rustTypes, ...tsTypes].filter(({ name, file }) => isRetired(name, file))
  expect(types.map(({ name, file }) => `${file}: ${name}`)).toEqual([])
  expect(files.filter((file) => isRetired(basename(file).replace(/\.\w+$/, '')))).toEqual([])
})

test('no function has a retired word for its name', () => {
  const bad = functions.filter(({ name }) => retired.names.includes(name.toLowerCase()))
  expect(bad.map(({ name, file }) => `${file}: ${name}`)).toEqual([])
})

/** Variables and parameters, by the extension of their file. */
const VARIABLES: readonly (readonly [extension: string, pattern: RegExp])[] = [
  ['.rs', /\blet (?:mut )?(\w+)/g],
  ['.rs', /[(,|]\s*(?:mut )?(\w+): /g],
  ['.ts', /\b(?:const|let) (\w+)/g],
  ['.ts', /[(,]\s*(\w+)\??: /g],
  ['.lua', /\blocal (\w+)/g],
]

/** Retired names that are ordinary words for a variable, such as a place in a list or a link to print. */
const FINE_FOR_VARIABLES = new Set(['place', 'taken', 'link', 'subject', 'round'])

test('no variable and no parameter has a retired word for its name', () => {
  const names = retired.names.filter((name) => !FINE_FOR_VARIABLES.has(name))
  const variables = VARIABLES.flatMap(([extension, pattern]) => declared(pattern, extension))
  expect(variables.length).toBeGreaterThan(5_000)
  const bad = variables.filter(({ name, file }) => names.includes(name.toLowerCase()) && !isOfBullmq(name, file))
  expect(bad.map(({ name, file }) => `${file}: ${name}`)).toEqual([])
})

test('no source and no page has a retired phrase', () => {
  const pages = execFileSync('git', ['ls-files', '-z', '*.md'], { cwd: ROOT, encoding: 'utf8' }).split('\0')
  const prose = [...files, ...pages.filter((file) => file !== '' && existsSync(join(ROOT, file)))]
  const found = prose.flatMap((file) => {
    const text = textOf(file).replace(/\s*\n\s*(?:\* |\/\/[/!]? |-- )?/g, ' ')
    return retired.phrases.filter((phrase) => text.includes(phrase)).map((phrase) => `${file}: ${phrase}`)
  })
  expect(found).toEqual([])
})

/** The comments of a file's text, and its code without them. */
function commentsOf(file: string): { readonly comments: readonly string[]; readonly code: string } {
  const pattern = file.endsWith('.lua') ? /--.*$/gm : file.endsWith('.rs') ? /\/\/.*$/gm : /\/\*[\s\S]*?\*\/|\/\/.*$/gm
  const text = textOf(file)
  return { comments: text.match(pattern) ?? [], code: text.replace(pattern, '') }
}

/** Names of other programs and files that comments mention in backticks. */
const FOREIGN = new Set([
  ...['ARCHITECTURE', 'TZDIR', 'mach_continuous_time', 'UV_POLL', 'UV_READABLE'],
  ...['Align', 'CL', 'THROTTLE', 'CLIENT', 'ID', 'MeterProvider'],
  ...['UsersController', '__typename', '_setTimeout', 'connect_error', 'edges', 'useFakeTimers'],
  ...['originalError', 'preHandler', 'DecompressionStream', 'APICallError', 'wrapLanguageModel'],
  ...['lockDuration', 'stalledInterval'],
  ...['total_tokens', 'prompt_tokens_details', 'cached_tokens'],
])

test('every name in backticks in a comment is in the code', () => {
  const parts = files.map((file) => ({ file, ...commentsOf(file) }))
  const code = parts.map((part) => part.code).join('\n') + textOf('package.json') + textOf('Cargo.toml')
  const names = new Set(code.match(/[A-Za-z_]\w*/g))
  const unknown = parts.flatMap(({ file, comments }) => {
    const quoted = comments.flatMap((comment) => comment.match(/`#?[A-Za-z_]\w*(?:(?:::|\.)#?\w+)*(?:\(\))?`/g) ?? [])
    const words = quoted.flatMap((name) => name.match(/[A-Za-z_]\w*/g) ?? [])
    return words.filter((word) => !names.has(word)).map((name) => ({ name, file }))
  })
  expect(unknown.filter(({ name }) => !FOREIGN.has(name))).toEqual([])
  expect([...FOREIGN].filter((foreign) => !unknown.some(({ name }) => name === foreign))).toEqual([])
})

test('every type that the map links to is in that file', () => {
  const links = [...MAP.matchAll(/\[`(\w+)`\]\(([^)]+)\)/g)].map(([, name = '', file = '']) => ({ name, file }))
  const types = [...rustTypes, ...tsTypes]
  const isThere = (link: Declared) => types.some(({ name, file }) => name === link.name && file === link.file)
  expect(links.filter((link) => !isThere(link))).toEqual([])
})

test.each([
  ['.rs', 'pub fn verdict(&self) {'],
  ['.ts', 'function verdict(text: string) {'],
  ['.ts', '  private async verdict() {'],
  ['.lua', 'local function verdict(state)'],
])('a function in a %s file is found: %s', (extension, line) => {
  const found = FUNCTIONS.filter(([of]) => of === extension).flatMap(([, pattern]) => [...line.matchAll(pattern)])
  expect(found.map(([, name]) => name)).toEqual(['verdict'])
})
