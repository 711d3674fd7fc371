/** Medians and ratios of the figures, and their output. */

/**
 * @typedef {object} Result
 * @property {string} name
 * @property {number} nsPerCall The median of the rounds.
 * @property {number} callsPerSecond
 * @property {number} ratio The time as a multiple of the first contender's time: see `ratioOf`.
 * @property {number[]} rounds Nanoseconds per call in each round.
 */

/**
 * @typedef {object} Target A bound on a ratio, set by the project.
 * @property {string} of
 * @property {string} [to] Without it, the bound is on the figure itself.
 * @property {string} [figure] The compared figure, if there are several.
 * @property {number} [below]
 * @property {number} [atMost]
 * @property {number} [atLeast]
 */

/**
 * Summarises a group of contenders. The others are compared with the first.
 *
 * @param {string[]} names
 * @param {Map<string, number[]>} times Nanoseconds per call, by contender and round.
 * @returns {Result[]}
 */
export function summaryOf(names, times) {
  const base = times.get(names[0])
  return names.map((name) => {
    const rounds = times.get(name)
    const nsPerCall = median(rounds)
    return { name, nsPerCall, callsPerSecond: 1e9 / nsPerCall, ratio: ratioOf(rounds, base), rounds }
  })
}

/**
 * @param {Target[]} targets
 * @param {Map<string, number[]>} figures By contender and round.
 */
export function targetsOf(targets, figures) {
  return targets.map((target) => {
    const { below = Infinity, atMost = Infinity, atLeast = 0 } = target
    const own = figures.get(target.of)
    const ratio = target.to === undefined ? median(own) : ratioOf(own, figures.get(target.to))
    return { ...target, ratio, met: ratio < below && ratio <= atMost && ratio >= atLeast }
  })
}

/** The median of some numbers. */
export function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

/** The median of the rounds' own ratios, because the turns of one round had the same conditions. */
export function ratioOf(figures, base) {
  return median(figures.map((figure, round) => figure / base[round]))
}

/**
 * @param {string} title
 * @param {Result[]} results
 */
export function printTable(title, results) {
  const rows = results.map(({ name, nsPerCall, callsPerSecond, ratio, rounds }) => [
    name,
    nsPerCall.toFixed(0),
    `${Math.min(...rounds).toFixed(0)}-${Math.max(...rounds).toFixed(0)}`,
    `${(callsPerSecond / 1e6).toFixed(2)}M`,
    ratio.toFixed(2),
  ])
  printColumns([title, 'ns per call', 'range', 'calls/s', 'x tollgate'], rows)
}

/** Prints a table: the first column is left-aligned, the others right-aligned. */
export function printColumns(head, rows) {
  const widths = head.map((text, column) => Math.max(text.length, ...rows.map((row) => row[column].length)))
  const line = (cells) => {
    const padded = cells.map((cell, column) => {
      return column === 0 ? cell.padEnd(widths[column]) : cell.padStart(widths[column])
    })
    return `  ${padded.join('   ')}`
  }
  console.log(`\n${line(head)}`)
  console.log(line(widths.map((width) => '-'.repeat(width))))
  for (const row of rows) {
    console.log(line(row))
  }
}

/** @param {ReturnType<typeof targetsOf>} targets */
export function printTargets(targets) {
  console.log()
  for (const { of, to, figure, below, atMost, atLeast, ratio, met } of targets) {
    const bound =
      below !== undefined ? `below ${below}` : atMost !== undefined ? `at most ${atMost}` : `at least ${atLeast}`
    const what = figure === undefined ? '' : `, ${figure}`
    console.log(
      `  ${of}${to === undefined ? '' : ` / ${to}`}${what}: ${ratio.toFixed(2)} (target: ${bound}, ${met ? 'met' : 'MISSED'})`,
    )
  }
}
