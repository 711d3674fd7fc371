/**
 * docs/promises.md: every promise stands on its page and has tests. The row has an id, and each of its
 * tests has the comment `// promise: ID` on the line above.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { pages, ROOT } from './pages.js'

const PATH = 'docs/promises.md'

const text = pages.find(({ path }) => path === PATH)?.text as string

/** The rows of its tables, as cells. */
const rows = text
  .split('\n')
  .filter((line) => line.startsWith('| ') && line !== '| promise | condition | otherwise | tested |')
  .map((line) => line.slice(2, -2).split(' | '))

/** A quote, and the page linked after it. */
const QUOTE = /"([^"]+)" \[[^\]]+\]\(([^)#]+)(?:#[^)]*)?\)/g

/** Files whose tests the gate or the search runs: each is in one group, or in a target of cargo. */
const TESTS = ['__tests__/*.ts', 'tests/engine/*.rs', 'tests/simulation/*.rs', 'src/*.rs']

function quotesIn(text: string): { readonly quote: string; readonly file: string }[] {
  return [...text.matchAll(QUOTE)].map(([, quote = '', target = '']) => ({
    quote,
    file: posix.normalize(posix.join(posix.dirname(PATH), target)),
  }))
}

/** A text without emphasis and line ends. */
function plain(text: string): string {
  return text.replace(/\*\*/g, '').replace(/\s*\n\s*/g, ' ')
}

function absent(text: string): string[] {
  const isThere = (file: string, quote: string) =>
    existsSync(join(ROOT, file)) && plain(readFileSync(join(ROOT, file), 'utf8')).includes(quote)
  return quotesIn(text).flatMap(({ quote, file }) => (isThere(file, quote) ? [] : [`${file}: ${quote}`]))
}

/** The ids and the faults that a last cell names: `ID`, …; on a real server: `FAULT`, … */
function namedBy(tested: string): { readonly ids: string[]; readonly faults: string[] } {
  const [tests = '', server = ''] = tested.split('on a real server:')
  const [ids, faults] = [tests, server].map((part) => [...part.matchAll(/`([a-z0-9-]+)`/g)].map(([, id = '']) => id))
  return { ids: ids as string[], faults: faults as string[] }
}

/** The ids in the comments of a file. */
function idsOf(source: string): string[] {
  return [...source.matchAll(/^ *\/\/ promise: (.*)$/gm)].flatMap(([, ids = '']) => ids.split(', '))
}

const named = rows.map(([, , , tested = '']) => namedBy(tested))

test('every row has a promise with its page, a condition, a consequence, and tests or the word "documented"', () => {
  const bad = rows.filter(([promise = '', condition = '', otherwise = '', tested = '', ...more]) => {
    const isPromise = promise === 'the same' || quotesIn(promise).length === 1
    const isTested = tested === 'documented' || Object.values(namedBy(tested)).flat().length > 0
    return !isPromise || !isTested || condition === '' || otherwise === '' || more.length > 0
  })
  expect(bad).toEqual([])
})

test('every promise stands on the linked page, word for word', () => {
  expect(absent(text)).toEqual([])
})

test('every id is that of one row, and the tests have the same ids', () => {
  const options = ['ls-files', '-z', '--cached', '--others', '--exclude-standard', '--', ...TESTS]
  const files = execFileSync('git', options, { cwd: ROOT, encoding: 'utf8' }).split('\0')
  const sources = files.filter((file) => file !== '' && existsSync(join(ROOT, file)))
  const tested = new Set(sources.flatMap((file) => idsOf(readFileSync(join(ROOT, file), 'utf8'))))
  expect(named.flatMap(({ ids }) => ids).sort()).toEqual([...tested].sort())
})

test('every fault on a real server has a row in failure-modes.md, as those of npm run chaos do', () => {
  const page = pages.find(({ path }) => path === 'docs/failure-modes.md')?.text ?? ''
  const existing = [...page.matchAll(/^\| `([a-z0-9-]+)`/gm)].map(([, name]) => name)
  expect(named.flatMap(({ faults }) => faults).filter((name) => !existing.includes(name))).toEqual([])
})

test('a missing quote is found', () => {
  expect(absent('"no such words" [a](metrics.md#a) "no" [b](absent.md) "Metrics" [c](metrics.md)')).toEqual([
    'docs/metrics.md: no such words',
    'docs/absent.md: no',
  ])
})

test('ids and faults are found', () => {
  expect(namedBy('`a-b`, `c`; on a real server: `freeze`; for processes documented')).toEqual({
    ids: ['a-b', 'c'],
    faults: ['freeze'],
  })
  expect(idsOf('  // promise: a-b, c\n  test()\n// promise: d\n#[test]\n')).toEqual(['a-b', 'c', 'd'])
})
