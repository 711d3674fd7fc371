/** Formats figures and Markdown tables. */

/** Calls a second, with three significant digits: measurements are no more precise. */
export function speed(value) {
  if (value >= 1e6) return `${(value / 1e6).toFixed(2)}M`
  const thousands = value / 1_000
  return thousands >= 100 ? `${thousands.toFixed(0)}k` : `${thousands.toFixed(1)}k`
}

/** A number with about three significant digits. */
export function number(value) {
  if (value >= 100) return value.toFixed(0)
  return value >= 10 ? value.toFixed(1) : value.toFixed(2)
}

/** A ratio, in bold if tollgate loses. */
export function ratio(value, isLost = value < 1) {
  const said = value.toFixed(2)
  return isLost ? `**${said}**` : said
}

/** A table: the first column is left-aligned, the others right-aligned. */
export function table(head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`
  return [line(head), `|---|${'---:|'.repeat(head.length - 1)}`, ...rows.map(line)].join('\n')
}

export function list(items) {
  return items.map((item) => `- ${item}`).join('\n')
}

/** Names and formats of the figures of a sweep. */
export const FIGURES = {
  callsPerSecond: { name: 'calls a second', text: speed, isMoreBetter: true },
  loadMs: { name: 'ms to load', text: number },
  nsPerCall: { name: 'ns per call', text: number },
  cpuMicros: { name: 'CPU µs per call', text: number },
  redisMicros: { name: "Redis's CPU µs per call", text: number },
  callsPerScript: { name: 'calls per script', text: number, isNeutral: true },
  p50Micros: { name: 'p50', text: number },
  p99Micros: { name: 'p99', text: number },
  timerP99Ms: { name: 'lateness of a timer, p99', text: number },
  p50Ms: { name: 'p50 ms', text: number },
  p99Ms: { name: 'p99 ms', text: number },
  rttMs: { name: 'PING ms', text: number, isNeutral: true },
}
