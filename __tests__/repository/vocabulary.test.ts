/** Type names are unique, and no name or text has a term that ARCHITECTURE.md retires. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'

const ROOT = dirname(dirname(__dirname))
const MAP = readFileSync(join(ROOT, 'ARCHITECTURE.md'), 'utf8')

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

const RUST_TYPE = /^(?:pub(?:\([a-z: ]+\))? )?(?:struct|enum|union|trait|type) (\w+)/gm
const TS_TYPE = /^(?:export )?(?:default )?(?:declare )?(?:abstract )?(?:class|interface|type|enum) (\w+)/gm

const rustTypes = declared(RUST_TYPE, '.rs')
const tsTypes = declared(TS_TYPE, 'ts')

const functions = [
  ...declared(/\bfn (\w+)/g, '.rs'),
  ...declared(/\bfunction (\w+)/g, '.ts'),
  ...declared(/^ {2}(?:(?:private|protected|static|async|get|set|readonly) )*#?(\w+)\(/gm, '.ts'),
  ...declared(/\bfunction (\w+)/g, '.lua'),
]

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
  expect(rustTypes.length).toBeGreaterThan(150)
  expect(duplicates(rustTypes)).toEqual([])
})

test('no two TypeScript modules define a type of the same name, unless both entry points export it', () => {
  expect(tsTypes.length).toBeGreaterThan(150)
  const [native, wasm] = [exportsOf('ts/index.ts'), exportsOf('ts/wasm/index.ts')]
  const isTwin = ({ name, file }: Declared) => file.startsWith('ts/wasm/') && native.has(name) && wasm.has(name)
  expect(duplicates(tsTypes.filter((type) => !isTwin(type)))).toEqual([])
})

/** The terms in backticks of the list below the glossary. */
const retired = /^Retired (?:[^.]|\n)*?: ([\s\S]*?)\n\n/m.exec(MAP)?.[1]?.match(/`[^`]+`/g) ?? []
const terms = retired.map((term) => term.slice(1, -1))
const words = terms.filter((term) => !term.includes(' '))
const phrases = terms.filter((term) => term.includes(' '))

/** `FlushTransport`, `flush-transport` and `flush_transport` are `flush` and `transport`. */
function wordsOf(name: string): string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
}

test('the glossary has at most 30 terms, and retires some', () => {
  const glossary = /^## Glossary\n([\s\S]*?)^Retired /m.exec(MAP)?.[1] ?? ''
  const rows = glossary.split('\n').filter((line) => /^\| (?!term |-)/.test(line))
  expect(rows.length).toBeGreaterThan(15)
  expect(rows.length).toBeLessThanOrEqual(30)
  expect(words.length).toBeGreaterThan(20)
  expect(phrases.length).toBeGreaterThan(3)
})

test('no type and no file has a retired word in its name', () => {
  const isRetired = (name: string) => wordsOf(name).some((word) => words.includes(word))
  const types = [...rustTypes, ...tsTypes].filter(({ name }) => isRetired(name))
  expect(types.map(({ name, file }) => `${file}: ${name}`)).toEqual([])
  expect(files.filter((file) => isRetired(basename(file).replace(/\.\w+$/, '')))).toEqual([])
})

test('no function has a retired word for its name', () => {
  expect(functions.length).toBeGreaterThan(1_000)
  const bad = functions.filter(({ name }) => words.includes(name.toLowerCase()))
  expect(bad.map(({ name, file }) => `${file}: ${name}`)).toEqual([])
})

test('no source and no page has a retired phrase', () => {
  const pages = execFileSync('git', ['ls-files', '-z', '*.md'], { cwd: ROOT, encoding: 'utf8' }).split('\0')
  const prose = [
    ...files,
    ...pages.filter((file) => file !== '' && file !== 'ARCHITECTURE.md' && existsSync(join(ROOT, file))),
  ]
  const found = prose.flatMap((file) => {
    const text = textOf(file).replace(/\s*\n\s*(?:\* |\/\/[/!]? |-- )?/g, ' ')
    return phrases.filter((phrase) => text.includes(phrase)).map((phrase) => `${file}: ${phrase}`)
  })
  expect(found).toEqual([])
})

test('the walk through a call has at most seven nouns, each a type in the file that it links to', () => {
  const walk = /^## One call\n([\s\S]*?)^## /m.exec(MAP)?.[1] ?? ''
  const nouns = [...walk.matchAll(/\[`(\w+)`\]\(([^)]+)\)/g)].map(([, name = '', file = '']) => ({ name, file }))
  const types = [...rustTypes, ...tsTypes]
  const isThere = (noun: Declared) => types.some(({ name, file }) => name === noun.name && file === noun.file)
  expect(nouns.filter((noun) => !isThere(noun))).toEqual([])
  const names = new Set(nouns.map(({ name }) => name))
  expect(names.size).toBeGreaterThan(4)
  expect(names.size).toBeLessThanOrEqual(7)
  // A type that is named in backticks is one of them.
  const others = [...walk.matchAll(/`([A-Z]\w+)`/g)].filter(([, name = '']) => !names.has(name))
  expect(others.map(([name]) => name)).toEqual([])
})
