/** The spelling and style of the pages, and the length of the README. */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { ROOT } from './pages.js'

test('the pages have no unknown words, doubled words or empty phrases, and the README is short', () => {
  const output = execFileSync('node', [join(ROOT, 'docs', 'prose.mjs')], { encoding: 'utf8' })
  expect(output).toMatch(/^README: \d+ words; longest line \d+ characters; longest sentence \d+ words\n$/)
}, 60_000)
