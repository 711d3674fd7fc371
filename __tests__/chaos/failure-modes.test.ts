/** docs/failure-modes.md and `npm run chaos` have the same faults. */
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { FAULTS } from '../../tests/chaos/faults/all.js'

const PAGE = readFileSync(join(dirname(dirname(__dirname)), 'docs/failure-modes.md'), 'utf8')

const names = FAULTS.map(({ name }) => name)

/** The page's sections, by title. */
const sections = new Map(
  PAGE.split(/^## /m).map((text) => [text.slice(0, text.indexOf('\n')), text.slice(text.indexOf('\n'))]),
)

/** The rows of all tables of a section, as cells. */
function rowsOf(title: string): string[][] {
  const lines = (sections.get(title) ?? '').split('\n').filter((line) => line.startsWith('| '))
  return lines.map((line) => line.split(' | ').map((cell) => cell.replace(/^\| | \|$/g, '').trim()))
}

/** The names at the start of cells. */
function namesIn(title: string): string[] {
  return rowsOf(title).flatMap(([first = '']) => /^`([a-z0-9-]+)`/.exec(first)?.[1] ?? [])
}

test('each row of the tables is an injected fault, and each fault has a row', () => {
  expect(namesIn('Faults').sort()).toEqual([...names].sort())
})

test('each fault has measurements', () => {
  expect(namesIn('Measured').sort()).toEqual([...names].sort())
})

test('the section on resending names existing faults', () => {
  const rows = rowsOf('What is sent again').slice(1)
  const shown = rows.flatMap((cells) => [...(cells.at(-1) ?? '').matchAll(/`([^`]+)`/g)].map(([, name]) => name))
  expect(shown).not.toEqual([])
  expect(shown.filter((name) => !names.includes(name as string))).toEqual([])
})
