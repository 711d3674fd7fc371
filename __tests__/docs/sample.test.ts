/** `npm run docs:sample` draws sentences of the pages, the same ones for the same seed. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './pages.js'

function sample(...words: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(ROOT, 'docs', 'sample.mjs'), ...words], {
    encoding: 'utf8',
  })
  return { status, lines: stdout.split('\n').filter(Boolean), errors: stderr.trim().split('\n') }
}

test('a seed draws the same sentences, and another seed others', () => {
  const first = sample('--sentences', '20', '--seed', '53')
  expect(first.lines).toHaveLength(20)
  expect(sample('--sentences', '20', '--seed', '53')).toEqual(first)
  expect(sample('--sentences', '20', '--seed', '54')).not.toEqual(first)
})

test('each sentence begins on its line', () => {
  for (const line of sample('--sentences', '100', '--seed', '53').lines) {
    const [, page = '', number = '', word = ''] = /^(\S+\.md):(\d+) (\S+)/.exec(line) ?? []
    expect(readFileSync(join(ROOT, page), 'utf8').split('\n')[Number(number) - 1]).toContain(word)
  }
})

test('--help prints the options', () => {
  const { status, lines } = sample('--help')
  expect({ status, first: lines[0] }).toEqual({ status: 0, first: 'Usage: npm run docs:sample -- [options]' })
})

test.each([
  [['--sentences', 'many'], '--sentences must be a whole number from 1'],
  [['--seed=-1'], '--seed must be a whole number from 0'],
  [['--pages', '3'], expect.stringMatching(/^Unknown option '--pages'/)],
])('%j fails with a short message', (words, message) => {
  expect(sample(...words)).toEqual({ status: 1, lines: [], errors: [message, '--help prints the options.'] })
})
