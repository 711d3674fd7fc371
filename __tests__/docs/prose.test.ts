/** The spelling and style of the pages, and the length of the README. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { ROOT } from './pages.js'

test('the pages have no unknown words, doubled words or empty phrases, and the README is short', () => {
  const { status, stderr } = spawnSync(process.execPath, [join(ROOT, 'docs', 'prose.mjs')], { encoding: 'utf8' })
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
})
