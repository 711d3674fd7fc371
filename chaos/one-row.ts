// One fault, in a process of its own: a crash, a rejection that nobody handles or a process that does not end
// breaks that row's promise, and no other's.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Fault, Pace, Row } from './fault.js'
import { FAULTS } from './faults/all.js'
import { leaked, type Resources, resources } from './resources.js'

/** What it is told on its command line, as JSON. */
export interface Task {
  readonly name: string
  readonly pace: Pace
  /** How often the fault is to happen. */
  readonly cycles: number
}

/** After so many cycles a process has what it needs; what it takes from then on is a leak. */
const WARM_CYCLES = 5

async function main(): Promise<void> {
  // Whoever asked is gone: nobody waits for the row.
  process.once('disconnect', () => process.exit(1))
  const { name, pace, cycles } = JSON.parse(process.argv[2] as string) as Task
  const fault = FAULTS.find((one) => one.name === name) as Fault
  const rows: Row[] = []
  let warm: Resources | undefined
  for (let cycle = 1; cycle <= cycles; cycle++) {
    rows.push(await fault.run(pace))
    if (cycle === Math.min(WARM_CYCLES, cycles - 1)) {
      warm = await settled()
    }
  }
  const leaks = warm === undefined ? undefined : leaked(warm, await settled())
  process.removeAllListeners('disconnect')
  process.send?.(summed(rows, leaks), () => process.disconnect())
}

/** What the process holds when nothing is on its way to its end any more. */
async function settled(): Promise<Resources> {
  await sleep(500)
  return resources()
}

/** One row of several cycles: the worst of each. */
function summed(rows: readonly Row[], leaks: ReturnType<typeof leaked> | undefined): Row {
  const errors: Record<string, number> = {}
  for (const [code, count] of rows.flatMap((row) => Object.entries(row.errors))) {
    errors[code] = (errors[code] ?? 0) + count
  }
  const most = (of: (row: Row) => number) => Math.max(...rows.map(of))
  const isNormal = rows.every(({ normalMs }) => normalMs !== undefined)
  const last = rows.at(-1) as Row
  return {
    calls: rows.reduce((sum, { calls }) => sum + calls, 0),
    longestMs: most(({ longestMs }) => longestMs),
    longestRawMs: most(({ longestRawMs }) => longestRawMs),
    loopDelayMs: most(({ loopDelayMs }) => loopDelayMs),
    errors,
    normalMs: isNormal ? most(({ normalMs }) => normalMs ?? 0) : undefined,
    admitted: (rows.find(({ broken }) => broken.length > 0) ?? last).admitted,
    notes: [...last.notes, ...(leaks === undefined ? [] : [`after ${rows.length} cycles ${leaks.note}`])],
    broken: [...new Set(rows.flatMap(({ broken }) => broken)), ...(leaks?.broken ?? [])],
  }
}

main().catch((error: unknown) => {
  console.error(error)
  process.exit(1)
})
