/** Whether a process has grown: robust slopes of its resources, compared with bounds. */

/** One value of a resource: its time in seconds. */
export type Point = readonly [seconds: number, value: number]

/** The growth of one resource after the warm-up. */
export interface Growth {
  readonly name: string
  /**
   * The slope, times the length of the record after the warm-up; or the difference of the medians of
   * its last and first quarters, which a single step changes, if that is more.
   */
  readonly growth: number
  readonly bound: number
  readonly isFlat: boolean
}

/**
 * The allowed growth over the whole record after the warm-up, by resource. Memory is in MiB. The
 * numbers of handles, descriptors, threads and clients rise and fall by more than this. A leak for
 * each fault would be hundreds in an hour.
 */
export const BOUNDS: Readonly<Record<string, number>> = {
  rss: 12,
  heap: 3,
  external: 2,
  handles: 10,
  descriptors: 5,
  threads: 1.5,
  redisMemory: 4,
  redisClients: 6,
}

/** A record with less than this after the warm-up shows only large leaks: its bounds are multiplied. */
const [SHORT_SECONDS, SHORT_FACTOR] = [600, 4]

/** The part of a record that is warm-up, and its longest duration in seconds. */
const [WARM_PART, WARM_SECONDS] = [0.25, 600]

/** A slope needs this many points. */
const FEWEST_POINTS = 6

/** The growth of each resource that has a bound. A resource with too few points is not flat. */
export function growths(record: Readonly<Record<string, readonly Point[]>>): Growth[] {
  return Object.entries(BOUNDS).map(([name, ofHours]) => {
    const points = warm(record[name] ?? [])
    const seconds = (points.at(-1)?.[0] ?? 0) - (points[0]?.[0] ?? 0)
    const bound = ofHours * (seconds < SHORT_SECONDS ? SHORT_FACTOR : 1)
    const growth = points.length < FEWEST_POINTS ? Number.NaN : Math.max(slope(points) * seconds, step(points))
    return { name, growth, bound, isFlat: growth <= bound }
  })
}

/** The points after the warm-up. */
function warm(points: readonly Point[]): readonly Point[] {
  const [first, last] = [points[0]?.[0] ?? 0, points.at(-1)?.[0] ?? 0]
  const start = first + Math.min((last - first) * WARM_PART, WARM_SECONDS)
  return points.filter(([seconds]) => seconds >= start)
}

/** The estimator of Theil and Sen: the median of the slopes of all pairs. A third of the points may be outliers. */
function slope(points: readonly Point[]): number {
  const every = Math.ceil(points.length / 1_000)
  const some = points.filter((_, index) => index % every === 0)
  const slopes = some.flatMap(([x, y], index) =>
    some.slice(index + 1).map(([otherX, otherY]) => (otherY - y) / (otherX - x)),
  )
  return median(slopes)
}

/** The difference of the medians of the last and the first quarter. */
function step(points: readonly Point[]): number {
  const values = points.map(([, value]) => value)
  const quarter = Math.ceil(values.length / 4)
  return median(values.slice(-quarter)) - median(values.slice(0, quarter))
}

function median(values: readonly number[]): number {
  const sorted = Float64Array.from(values).sort()
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2
}
