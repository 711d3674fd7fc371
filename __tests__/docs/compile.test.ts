/**
 * Every block of JavaScript and TypeScript in the pages compiles, strictly, against the built
 * package.
 */
import { COMPILED, complaintsAbout } from './compile.js'
import { type Block, blocks } from './pages.js'

const ENTRIES = ['tollgate', 'tollgate/wasm']
const LANGUAGES = ['js', 'ts']
const POLICY = `gcra({ limit: 1, period: '1s' })`
const POLICIES = [POLICY, `{ a: ${POLICY} }`, `tiers({ free: ${POLICY} })`]
const APP = [['app', `import('express').Express`]] as const

/** Blocks of pages that do not exist. They compile in the same program as those of the pages. */
const planted: Block[] = []

function plant(page: string, language: string, code: string, given: Block['given'] = []): string {
  planted.push({ page, line: 3, language, code, given })
  return page
}

const misspelt = plant('misspelt', 'js', `import { gcra } from 'tollgate'\n\ngcra({ limit: 1, perod: '1m' })`)
const absent = plant('absent', 'ts', `import { tollbooth } from 'tollgate/express'\ntollbooth()`)
const typed = plant('typed', 'js', 'const n: number = 1')
const right = LANGUAGES.map((language) =>
  plant(`right ${language}`, language, `app.get('/', (req, res) => res.json({ ip: req.ip }))`, APP),
)
const wrong = LANGUAGES.map((language) => plant(`wrong ${language}`, language, 'app.limit()', APP))
const withoutPrefix = ENTRIES.flatMap((entry) =>
  POLICIES.map((policies, index) => {
    const code = `import { gcra, RateLimiter, tiers } from '${entry}'\nnew RateLimiter(${policies}, { store })`
    return plant(`${entry} ${index}`, 'ts', code, [['store', `import('${entry}').RedisStore`]])
  }),
)

let complaints: readonly string[]

beforeAll(() => {
  complaints = complaintsAbout([...blocks.filter(({ language }) => COMPILED.includes(language)), ...planted])
})

function complaintsIn(page: string): string[] {
  return complaints.filter((complaint) => complaint.startsWith(`${page}:`))
}

test('every block compiles', () => {
  expect(complaints.filter((complaint) => !planted.some(({ page }) => complaint.startsWith(`${page}:`)))).toEqual([])
})

test('an error is reported with its line', () => {
  expect(complaintsIn(misspelt)).toEqual([expect.stringMatching(/^misspelt:5 TS2561: .*'perod'/)])
  expect(complaintsIn(absent)).toEqual([expect.stringMatching(/^absent:3 TS2305: .*'tollbooth'/)])
  expect(complaintsIn(typed)).toEqual([expect.stringMatching(/TS8010/)])
})

test('a given value has the declared type', () => {
  expect(right.map(complaintsIn)).toEqual(LANGUAGES.map(() => []))
  expect(wrong.map(complaintsIn)).toEqual(wrong.map((page) => [expect.stringMatching(`^${page}:3 TS2339`)]))
})

test('a store without a prefix is reported as that, by both engines', () => {
  const missing = [expect.stringMatching(/Property 'prefix' is missing/)]
  expect(withoutPrefix.map(complaintsIn)).toEqual(withoutPrefix.map(() => missing))
})
