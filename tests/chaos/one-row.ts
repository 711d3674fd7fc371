// Runs one fault in its own process: a crash, an unhandled rejection or a process that cannot exit
// breaks the promise of that row only.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Fault, Pace, Row } from './fault.js'
import { FAULTS } from './faults/all.js'
import { leaked, type Resources, resources } from './resources.js'

/** The argument of the process, as JSON. */
export interface Task {
  readonly name: string
  readonly pace: Pace
  /** The number of times to inject the fault. */
  readonly cycles: number
}

/** Cycles after which a process holds everything it needs; later growth is a leak. */
const WARM_CYCLES = 5

async function main(): Promise<void> {
  // The parent process is gone.
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

/** The resources of the process when nothing is being closed. */
async function settled(): Promise<Resources> {
  await sleep(500)
  return resources()
}

/** Merges the rows of several cycles: the worst value of each column. */
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
