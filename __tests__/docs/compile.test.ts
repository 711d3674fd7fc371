/**
 * Every block of JavaScript and TypeScript in the pages compiles, strictly, against the built
 * package.
 */
import { COMPILED, complaintsAbout } from './compile.js'
import { type Block, blocks } from './pages.js'

const block = (language: string, code: string, given: Block['given'] = []): Block => {
  return { page: 'README.md', line: 3, language, code, given }
}

test('every block compiles', () => {
  const compiled = blocks.filter(({ language }) => COMPILED.includes(language))
  expect(compiled.length).toBeGreaterThan(50)
  expect(complaintsAbout(compiled)).toEqual([])
}, 120_000)

test('an error is reported with its line', () => {
  const wrong = [
    block('js', `import { gcra } from 'tollgate'\n\ngcra({ limit: 1, perod: '1m' })`),
    block('ts', `import { tollbooth } from 'tollgate/express'\ntollbooth()`),
  ]
  expect(complaintsAbout(wrong)).toEqual([
    expect.stringMatching(/^README\.md:5 TS2561: .*'perod'/),
    expect.stringMatching(/^README\.md:3 TS2305: .*'tollbooth'/),
  ])
  expect(complaintsAbout([block('js', 'const n: number = 1')])).toEqual([expect.stringMatching(/TS8010/)])
})

test('a given value has the declared type', () => {
  const given = [['app', `import('express').Express`]] as const
  for (const language of ['js', 'ts']) {
    expect(complaintsAbout([block(language, `app.get('/', (req, res) => res.json({ ip: req.ip }))`, given)])).toEqual(
      [],
    )
    expect(complaintsAbout([block(language, 'app.limit()', given)])).toEqual([
      expect.stringMatching(/^README\.md:3 TS2339/),
    ])
  }
})

test.each(['tollgate', 'tollgate/wasm'])('%s: a store without a prefix is reported as that', (name) => {
  const given = [['store', `import('${name}').RedisStore`]] as const
  const imported = `import { gcra, RateLimiter, tiers } from '${name}'\n`
  const policy = `gcra({ limit: 1, period: '1s' })`
  for (const policies of [policy, `{ a: ${policy} }`, `tiers({ free: ${policy} })`]) {
    expect(complaintsAbout([block('ts', `${imported}new RateLimiter(${policies}, { store })`, given)])).toEqual([
      expect.stringMatching(/Property 'prefix' is missing/),
    ])
  }
})
