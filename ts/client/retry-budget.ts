const SLICE_MS = 10_000

const SLICES = 6

/** The retries that a minute may have in any case. */
const MIN_RETRIES = 10

/** The calls and retries that began in one slice of time. Slices are numbered from the clock's zero. */
interface Slice {
  number: number
  calls: number
  retries: number
}

/** Bounds the retries of all calls to a share of the last minute's calls: a server that fails gets little more load. */
export class RetryBudget {
  readonly #share: number | false
  readonly #slices: Slice[] = Array.from({ length: SLICES }, () => ({ number: -1, calls: 0, retries: 0 }))

  /** @param share - The retries for each call; `false`: no bound. */
  constructor(share: number | false) {
    this.#share = share
  }

  countCall(now: number): void {
    this.#sliceAt(now).calls++
  }

  /** Takes a retry, if there is one left. */
  take(now: number): boolean {
    if (this.#share === false) {
      return true
    }
    const current = this.#sliceAt(now)
    const recent = this.#slices.filter(({ number }) => number > current.number - SLICES)
    const calls = recent.reduce((sum, slice) => sum + slice.calls, 0)
    const retries = recent.reduce((sum, slice) => sum + slice.retries, 0)
    const hasOne = retries < Math.max(MIN_RETRIES, Math.floor(this.#share * calls))
    current.retries += hasOne ? 1 : 0
    return hasOne
  }

  #sliceAt(now: number): Slice {
    const number = Math.floor(now / SLICE_MS)
    const slice = this.#slices[number % SLICES] as Slice
    if (slice.number !== number) {
      Object.assign(slice, { number, calls: 0, retries: 0 })
    }
    return slice
  }
}
