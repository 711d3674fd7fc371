/** What the engine asks of the platform. It is asked amid a decision, so nothing here may throw. */

/** 32 bits that nobody can guess. */
export function randomBits(): number {
  return (crypto.getRandomValues(new Uint32Array(1)) as Uint32Array<ArrayBuffer>)[0] as number
}

/** The clocks of time zones by their numbers, and the numbers by their names. */
const clocks: Intl.DateTimeFormat[] = []
const numbers = new Map<string, number>()

/** How many seconds the clocks of a time zone are ahead of UTC at a time. */
export function offsetAt(zone: number, epochSeconds: number): number {
  const parts = (clocks[zone] as Intl.DateTimeFormat).formatToParts(epochSeconds * 1_000)
  const shown = Object.fromEntries(parts.map(({ type, value }) => [type, Number(value)]))
  const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0 } = shown
  return Date.UTC(year, month - 1, day, hour, minute, second) / 1_000 - epochSeconds
}

/** The number of a time zone; -1 if no zone has this name. */
export function zoneOf(name: string): number {
  const known = numbers.get(name)
  if (known !== undefined) {
    return known
  }
  const clock = clockOf(name)
  if (clock === undefined) {
    return -1
  }
  numbers.set(name, clocks.length)
  return clocks.push(clock) - 1
}

/** Whether a time zone has this name. */
export function isTimeZone(name: string): boolean {
  return zoneOf(name) >= 0
}

function clockOf(timeZone: string): Intl.DateTimeFormat | undefined {
  // Offsets such as +01:00 are taken, too, but not everywhere.
  if (!/^[A-Za-z]/.test(timeZone)) {
    return undefined
  }
  const [calendar, numberingSystem, numeric] = ['gregory', 'latn', 'numeric'] as const
  const date = { year: numeric, month: numeric, day: numeric } as const
  const time = { hour: numeric, minute: numeric, second: numeric, hourCycle: 'h23' } as const
  try {
    return new Intl.DateTimeFormat('en-US', { timeZone, calendar, numberingSystem, ...date, ...time })
  } catch {
    return undefined
  }
}
