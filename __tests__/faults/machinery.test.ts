/** The machinery of the fault report: tollgate in short scenarios, over a real Redis. */
import { execFile } from 'node:child_process'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const MAIN = join(dirname(dirname(__dirname)), 'tests', 'faults', 'main.mjs')

async function report(...words: readonly string[]): Promise<string> {
  return (await promisify(execFile)(process.execPath, [MAIN, ...words])).stdout
}

/** The printed cell of a scenario. */
function cellIn(
  printed: string,
  scenario: string,
): { readonly beyond: number; readonly lost: number; readonly doubled: number } {
  return JSON.parse(new RegExp(`^tollgate ${scenario} (.*)$`, 'm').exec(printed)?.[1] ?? 'null')
}

test('tollgate admits its limit, neither more nor less', async () => {
  const printed = await report('--only', 'tollgate', '--fault', '1000-at-once', '--fault', 'refused-cost')
  const right = { beyond: 0, refusedFree: 0, failed: 0, unanswered: 0 }
  expect(cellIn(printed, '1000-at-once')).toMatchObject({ calls: 1_005, admitted: 200, ...right })
  expect(cellIn(printed, 'refused-cost')).toMatchObject({ calls: 3, admitted: 10, ...right })
})

test('a Redis that loses its counts shows as units beyond the limit and as lost charges', async () => {
  const printed = await report('--only', 'tollgate', '--fault', 'restarted')
  const { beyond, lost, doubled } = cellIn(printed, 'restarted')
  expect({ beyond: beyond > 0, lost: lost > 0, doubled }).toEqual({ beyond: true, lost: true, doubled: 0 })
})

test('names that do not exist are refused', async () => {
  await expect(report('--only', 'nothing')).rejects.toThrow('No such name: nothing')
})
