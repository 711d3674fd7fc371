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
): Record<'beyond' | 'lost' | 'doubled' | 'admitted' | 'failed', number> {
  return JSON.parse(new RegExp(`^tollgate ${scenario} (.*)$`, 'm').exec(printed)?.[1] ?? 'null')
}

test('tollgate admits its limit, neither more nor less', async () => {
  const printed = await report('--only', 'tollgate', '--fault', '1000-at-once', '--fault', 'refused-cost')
  const right = { beyond: 0, refusedFree: 0, unanswered: 0 }
  const atOnce = cellIn(printed, '1000-at-once')
  expect(atOnce).toMatchObject({ calls: 1_005, ...right })
  // A busy machine may keep a process from running until a call has timed out.
  expect(atOnce.admitted + atOnce.failed).toBeGreaterThanOrEqual(200)
  const refused = cellIn(printed, 'refused-cost')
  expect(refused).toMatchObject({ calls: 3, ...right })
  expect(refused.admitted + 8 * refused.failed).toBeGreaterThanOrEqual(10)
})

test('a Redis that loses its counts shows as units beyond the limit and as lost charges', async () => {
  const printed = await report('--only', 'tollgate', '--fault', 'restarted')
  const { beyond, lost, doubled } = cellIn(printed, 'restarted')
  expect({ beyond: beyond > 0, lost: lost > 0, doubled }).toEqual({ beyond: true, lost: true, doubled: 0 })
})

test('names that do not exist are refused', async () => {
  await expect(report('--only', 'nothing')).rejects.toThrow('No such name: nothing')
})
