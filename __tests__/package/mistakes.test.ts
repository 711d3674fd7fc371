/**
 * docs/mistakes.md: what the compiler and the package answer to common mistakes.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../docs/pages.js'

const PAGE = readFileSync(join(ROOT, 'docs', 'mistakes.md'), 'utf8')

const ROWS = PAGE.split('\n').filter((line) => line.startsWith('| `'))

test('the page is current: node scripts/mistakes.mjs --write', () => {
  execFileSync(process.execPath, ['scripts/mistakes.mjs', '--check'], { cwd: ROOT, stdio: 'pipe' })
})

test('the compiler finds most mistakes', () => {
  const unseen = ROWS.filter((row) => row.includes('| – |'))
  expect(ROWS.length).toBeGreaterThan(200)
  expect(unseen.length).toBeLessThan(ROWS.length / 4)
})
