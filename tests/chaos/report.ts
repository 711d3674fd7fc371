import type { Fault, Row } from './fault.js'

/** A fault with its row. */
export interface Result extends Row {
  readonly name: string
  readonly title: string
  readonly seconds: number
}

const COLUMNS = ['fault', 'calls', 'longest', 'raw', 'loop', 'normal', 'admitted of bound', 'errors', ''] as const
const WIDTHS = [17, 8, 8, 7, 6, 7, 32, 44, 4] as const

export const HEADER = line(COLUMNS)

export const LEGEND = `longest: the longest time that a call was pending, in ms, without stalls of the event loop; raw: with stalls.
loop: the longest stall of the event loop, in ms. normal: ms from the store's recovery until no call failed.
admitted of bound: units on the key nearest to its bound: in any span of a window, and all of a rate.`

/** The line of a fault, followed by its notes and broken promises. */
export function told(result: Result): string {
  const { name, calls, longestMs, longestRawMs, loopDelayMs, normalMs, admitted, errors, notes, broken } = result
  const units = admitted.map(({ limiter, admitted, bound }) => `${limiter} ${admitted}/${bound}`)
  const codes = Object.entries(errors).map(([code, count]) => `${code} ${count}`)
  const cells = [
    name,
    `${calls}`,
    longestMs.toFixed(),
    longestRawMs.toFixed(),
    loopDelayMs.toFixed(),
    normalMs?.toFixed() ?? 'never',
    units.join(', '),
    codes.join(', '),
    broken.length === 0 ? 'pass' : 'FAIL',
  ]
  const below = [...notes.map((note) => `    ${note}`), ...broken.map((promise) => `  ! ${promise}`)]
  return [line(cells), ...below].join('\n')
}

/** The faults, as a list. */
export function listed(faults: readonly Fault[]): string {
  return faults.map(({ name, title }) => `${name.padEnd(WIDTHS[0])} ${title}`).join('\n')
}

function line(cells: readonly string[]): string {
  const padded = cells.map((cell, index) => {
    const width = WIDTHS[index] ?? 0
    return index > 0 && index < 6 ? cell.padStart(width) : cell.padEnd(width)
  })
  return padded.join(' ').trimEnd()
}
