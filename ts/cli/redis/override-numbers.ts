/** Decodes the numbers of an override, which start with those of its algorithm. */

/** The numbers of an override, by the names of their options. Durations are in milliseconds. */
export interface OverrideNumbers {
  readonly numbers: Readonly<Record<string, number | readonly OverrideLimit[]>>
}

/** One limit of a log. */
export interface OverrideLimit {
  readonly limit: number
  readonly windowMs: number
}

type NumberDecoder = (numbers: readonly number[]) => OverrideNumbers['numbers']

const rate: NumberDecoder = ([period = 0, units = 0, burst = 0]) => ({ limit: units, periodMs: period / 1_000, burst })
const bucket = (capacity: number, most: number, initial: number) => ({
  capacity,
  ...(initial === capacity ? {} : { initial }),
  ...(most === capacity ? {} : { debt: most - capacity }),
})
const window: NumberDecoder = ([limit = 0, window = 0]) => ({ limit, windowMs: window / 1_000 })
const buckets: NumberDecoder = ([limit = 0, , span = 0]) => ({ limit, windowMs: span / 1_000 })
const log: NumberDecoder = ([, , , ...words]) => {
  const limits: OverrideLimit[] = []
  for (let at = 0; at + 1 < words.length; at += 2) {
    limits.push({ limit: words[at] as number, windowMs: (words[at + 1] as number) / 1_000 })
  }
  return limits.length === 1 ? { ...(limits[0] as OverrideLimit) } : { limits }
}

/**
 * By the tag of algorithm and layout. The order of the numbers is that of `push_policy` in
 * src/redis/codec/.
 */
const DECODERS: Readonly<Record<string, NumberDecoder>> = {
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

/** Decodes the numbers of an override. */
export function overrideNumbers(tag: string, numbers: readonly number[]): OverrideNumbers {
  return { numbers: DECODERS[tag]?.(numbers) ?? {} }
}

/** The maximum units of a call under an override, if it is one number. */
export function limitOf({ numbers }: OverrideNumbers): number | undefined {
  const { burst, capacity, debt = 0, limit } = numbers
  if (typeof burst === 'number') {
    return burst
  }
  return typeof capacity === 'number' ? capacity + (debt as number) : (limit as number | undefined)
}
