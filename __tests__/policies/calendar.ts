/** A calendar oracle: it steps through the local clock of Intl in quarters of an hour. */

const STEP = 900_000
const DAY = 86_400_000

const formats = new Map<string, Intl.DateTimeFormat>()

/** The local time, as milliseconds since 1970 in local time. */
function clockAt(time: number, timeZone: string): number {
  let format = formats.get(timeZone)
  if (format === undefined) {
    const numeric = 'numeric'
    const parts = {
      year: numeric,
      month: numeric,
      day: numeric,
      hour: numeric,
      minute: numeric,
      second: numeric,
    } as const
    format = new Intl.DateTimeFormat('en-US', { ...parts, timeZone, hourCycle: 'h23', calendar: 'iso8601' })
    formats.set(timeZone, format)
  }
  const shown = Object.fromEntries(format.formatToParts(time).map(({ type, value }) => [type, Number(value)]))
  const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0 } = shown
  return Date.UTC(year, month - 1, day, hour, minute, second)
}

/** The first date of the day, week or month of a local time. */
function firstDate(clock: number, every: string): number {
  const date = new Date(clock - (clock % DAY))
  if (every === 'week') {
    return date.getTime() - ((date.getUTCDay() + 6) % 7) * DAY
  }
  return every === 'month' ? Date.UTC(date.getUTCFullYear(), date.getUTCMonth()) : date.getTime()
}

const PARTS: Readonly<Record<string, number>> = {
  '15m': 900_000,
  hour: 3_600_000,
  '2h': 7_200_000,
  '6h': 21_600_000,
  '12h': 43_200_000,
}

/**
 * The end of the window of a time. Since 2000 clocks have changed only at quarters of an hour and
 * at one minute past.
 */
export function boundaryAfter(now: number, every: string, timeZone: string): number {
  const start = now - (now % STEP)
  const length = PARTS[every]
  if (length !== undefined) {
    // St. John's changed its clocks at one minute past midnight.
    for (let time = start + 60_000; ; time += 60_000) {
      const [before, clock] = [clockAt(time - 60_000, timeZone), clockAt(time, timeZone)]
      const moves = Math.floor(before / length) !== Math.floor(clock / length)
      if (time > now && (moves || clock % length === 0 || (before + 60_000) % length === 0)) {
        return time
      }
    }
  }
  let latest = Number.NEGATIVE_INFINITY
  for (let time = start - 2 * DAY; time <= start; time += STEP) {
    latest = Math.max(latest, firstDate(clockAt(time, timeZone), every))
  }
  let time = start + STEP
  while (firstDate(clockAt(time, timeZone), every) <= latest) {
    time += STEP
  }
  return time
}
