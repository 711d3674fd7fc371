/**
 * docs/promises.md: every quote stands in the linked file, so a promise or a test name changes only
 * together with its row.
 */
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

/** A quote, and the file linked after it. */
const QUOTE = /"([^"]+)" \[[^\]]+\]\(([^)#]+)(?:#[^)]*)?\)/g

function quotesIn(text: string): { readonly quote: string; readonly file: string }[] {
  return [...text.matchAll(QUOTE)].map(([, quote = '', target = '']) => ({
    quote,
    file: posix.normalize(posix.join(posix.dirname(PATH), target)),
  }))
}

/** A text without emphasis, comment marks and line ends. */
function plain(text: string): string {
  return text.replace(/\*\*/g, '').replace(/\s*\n\s*(?:\* |\/\/[/!] )?\s*/g, ' ')
}

function absent(text: string): string[] {
  const isThere = (file: string, quote: string) =>
    existsSync(join(ROOT, file)) && plain(readFileSync(join(ROOT, file), 'utf8')).includes(quote)
  return quotesIn(text).flatMap(({ quote, file }) => (isThere(file, quote) ? [] : [`${file}: ${quote}`]))
}

test('every row has a promise with its place, and names its tests or says that it is documented', () => {
  expect(rows.length).toBeGreaterThan(40)
  const bad = rows.filter(([promise = '', condition = '', otherwise = '', tested = '', ...more]) => {
    const isPromise = promise === 'the same' || quotesIn(promise).length === 1
    const isTested = quotesIn(tested).length > 0 || tested === 'documented'
    return !isPromise || !isTested || condition === '' || otherwise === '' || more.length > 0
  })
  expect(bad).toEqual([])
})

test('every promise and every test name stands in the linked file, word for word', () => {
  expect(quotesIn(text).length).toBeGreaterThan(100)
  expect(absent(text)).toEqual([])
})

test('every quote, except in examples, has a link', () => {
  const unlinked = rows.flatMap(
    (cells) =>
      cells
        .join(' ')
        .replace(QUOTE, '')
        .match(/"[^"]*"/g) ?? [],
  )
  expect(unlinked).toEqual([])
})

test('a missing quote is found', () => {
  expect(absent('"no such words" [a](metrics.md#a) "no" [b](absent.md) "Metrics" [c](metrics.md)')).toEqual([
    'docs/metrics.md: no such words',
    'docs/absent.md: no',
  ])
})
