/** Functions of the platform that the engine calls. They must not throw. */

/** 32 unpredictable bits. */
export function randomBits(): number {
  return (crypto.getRandomValues(new Uint32Array(1)) as Uint32Array<ArrayBuffer>)[0] as number
}

/** The date formats of time zones by zone number, and the zone numbers by name. */
const clocks: Intl.DateTimeFormat[] = []
const numbers = new Map<string, number>()

/** The offset of a time zone from UTC at a time, in seconds. */
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
  // Some platforms also accept offsets such as +01:00.
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
