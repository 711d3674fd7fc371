/** Figures as text, and tables of Markdown. */

/** Calls a second: three figures are as many as a measurement is good for. */
export function speed(value) {
  if (value >= 1e6) return `${(value / 1e6).toFixed(2)}M`
  const thousands = value / 1_000
  return thousands >= 100 ? `${thousands.toFixed(0)}k` : `${thousands.toFixed(1)}k`
}

/** A number with about three figures. */
export function number(value) {
  if (value >= 100) return value.toFixed(0)
  return value >= 10 ? value.toFixed(1) : value.toFixed(2)
}

/** A ratio: bold where it is against tollgate. */
export function ratio(value, isLost = value < 1) {
  const said = value.toFixed(2)
  return isLost ? `**${said}**` : said
}

/** A table: the first column to the left, the others to the right. */
export function table(head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`
  return [line(head), `|---|${'---:|'.repeat(head.length - 1)}`, ...rows.map(line)].join('\n')
}

/** A list. */
export function list(items) {
  return items.map((item) => `- ${item}`).join('\n')
}

/** How the figures of a sweep are called, and told. */
export const FIGURES = {
  callsPerSecond: { name: 'calls a second', text: speed, isMoreBetter: true },
  nsPerCall: { name: 'ns for a call', text: number },
  cpuMicros: { name: 'CPU µs for a call', text: number },
  redisMicros: { name: "Redis's CPU µs for a call", text: number },
  callsPerScript: { name: 'calls per script', text: number, isNeutral: true },
  p50Micros: { name: 'p50', text: number },
  p99Micros: { name: 'p99', text: number },
  timerP99Ms: { name: 'how late an unrelated timer is', text: number },
  p50Ms: { name: 'p50 ms', text: number },
  p99Ms: { name: 'p99 ms', text: number },
  rttMs: { name: 'PING ms', text: number, isNeutral: true },
}
