/** Numbers of a key's own, as its override has them: those that its algorithm's words begin with. */

/** The numbers of an override by the names of their options; lengths of time in milliseconds. */
export interface OwnNumbers {
  readonly numbers: Readonly<Record<string, number | readonly OwnLimit[]>>
}

/** One of the limits of a log. */
export interface OwnLimit {
  readonly limit: number
  readonly windowMs: number
}

type Read = (numbers: readonly number[]) => OwnNumbers['numbers']

const rate: Read = ([period = 0, units = 0, burst = 0]) => ({ limit: units, periodMs: period / 1_000, burst })
const bucket = (capacity: number, most: number, initial: number) => ({
  capacity,
  ...(initial === capacity ? {} : { initial }),
  ...(most === capacity ? {} : { debt: most - capacity }),
})
const window: Read = ([limit = 0, window = 0]) => ({ limit, windowMs: window / 1_000 })
const buckets: Read = ([limit = 0, , span = 0]) => ({ limit, windowMs: span / 1_000 })
const log: Read = ([, , , ...words]) => {
  const limits: OwnLimit[] = []
  for (let at = 0; at + 1 < words.length; at += 2) {
    limits.push({ limit: words[at] as number, windowMs: (words[at + 1] as number) / 1_000 })
  }
  return limits.length === 1 ? { ...(limits[0] as OwnLimit) } : { limits }
}

/** By the tag of algorithm and layout: the numbers as `push_policy` in src/redis/codec/ puts them. */
const READ: Readonly<Record<string, Read>> = {
  gcra: rate,
  tb: ([period = 0, units = 0, burst = 0, capacity = 0, initial = 0]) => ({
    ...bucket(capacity, burst, initial),
    tokens: units,
    everyMs: period / 1_000,
  }),
  lb: ([period = 0, units = 0, capacity = 0]) => ({ capacity, units, everyMs: period / 1_000 }),
  tbi: ([every = 0, tokens = 0, most = 0, capacity = 0, initial = 0]) => ({
    ...bucket(capacity, most, initial),
    tokens,
    everyMs: every / 1_000,
  }),
  fw: window,
  cw: ([limit = 0]) => ({ limit }),
  sc: ([limit = 0, windowMs = 0]) => ({ limit, windowMs }),
  swl: buckets,
  swh: buckets,
  sl: log,
  sls: log,
}

/** What the numbers say. */
export function ownNumbers(tag: string, numbers: readonly number[]): OwnNumbers {
  return { numbers: READ[tag]?.(numbers) ?? {} }
}

/** The most units of a call under an override, if it is one number. */
export function limitOf({ numbers }: OwnNumbers): number | undefined {
  const { burst, capacity, debt = 0, limit } = numbers
  if (typeof burst === 'number') {
    return burst
  }
  return typeof capacity === 'number' ? capacity + (debt as number) : (limit as number | undefined)
}
