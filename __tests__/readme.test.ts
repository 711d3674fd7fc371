/** The README's examples: each that prints does what its comments say. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { format } from 'node:util'
import * as tollgate from '../ts/index.js'

const README = readFileSync(join(__dirname, '..', 'README.md'), 'utf8')

/** The blocks of JavaScript under their headings. */
const examples = README.split(/^#{2,3} /m).flatMap((section) => {
  const blocks = [...section.matchAll(/^```js\n([\s\S]*?)^```$/gm)].map(([, code]) => code ?? '')
  const title = section.slice(0, section.indexOf('\n'))
  return blocks.filter((code) => code.includes('console.log(')).map((code) => ({ title, code }))
})

const AsyncFunction = (async () => {}).constructor as new (
  ...parameters: string[]
) => (...given: unknown[]) => Promise<void>

test('there are examples of all operations', () => {
  const all = examples.map(({ code }) => code).join('')
  const operations = [
    'take',
    'takeMany',
    'takeUpTo',
    'peek',
    'penalize',
    'refund',
    'reserve',
    'wait',
    'block',
    'unblock',
    'override',
  ]
  expect([...operations, 'clearOverride'].filter((name) => !all.includes(`.${name}(`))).toEqual([])
})

test.each(examples)('$title: prints what it says', async ({ code }) => {
  const printed: string[] = []
  const log = (...values: unknown[]) => printed.push(format(...values))
  const script = code.replace(/^import (\{.*\}) from 'tollgate'$/m, 'const $1 = tollgate')
  await new AsyncFunction('tollgate', 'console', script)(tollgate, { log })
  const said = [...code.matchAll(/^console\.log\(.*\/\/ (.*)$/gm)].map(([, text]) => text)
  expect(said.length).toBeGreaterThan(0)
  expect(printed).toEqual(said)
})
