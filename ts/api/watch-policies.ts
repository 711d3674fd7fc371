import { type Duration, millisOf } from '../input/duration.js'
import { checkCount, invalid, optionsOf } from '../input/options.js'
import { timers } from '../platform/timers.js'
import { reasonOf, Warnings } from '../platform/warning.js'
import { TollgateError } from './error.js'

/** The options of {@link watchPolicies}. @inline */
export interface WatchOptions {
  /** The time between the end of a read and the next read: from 10 ms to a day. Default: `'10s'`. */
  readonly every?: Duration
  /** The longest time of a read, from 10 ms to a day: then it fails with `STORE_TIMEOUT`. Default: `'10s'`. */
  readonly timeout?: Duration
  /** Called with the error of a failed read or update. Default: a process warning, once for each message. */
  readonly onError?: (error: unknown) => void
}

/**
 * A running watch of policies.
 *
 * @example
 * const watch: PolicyWatch = watchPolicies(limiter, async () => gcra({ limit: 200, period: '1m' }))
 * await watch.refresh()
 * watch.stop()
 */
export interface PolicyWatch {
  /** Reads the policies now, and updates the limiter if they have changed. Rejects if that fails. */
  refresh(): Promise<void>
  /** Ends the watch. A read under way updates nothing. */
  stop(): void
}

/** The part of a limiter that a watch needs. Every `RateLimiter` has it. */
interface UpdatedLimiter {
  update(policies: never): void
}

const DEFAULT_EVERY: Duration = '10s'

const DEFAULT_TIMEOUT: Duration = '10s'

/** The bounds of both durations. */
const MIN_MS = 10

const MAX_MS = 86_400_000

const RULE = 'watchPolicies takes a limiter, a function and an object of options'

/**
 * Reads the numbers of a limiter from elsewhere from time to time, such as from a file or from Redis, and calls
 * `limiter.update` when they have changed. The first read is after `every`. The watch does not keep the
 * process alive.
 *
 * @param read - Returns the policies, as `new RateLimiter` takes them, or parsed from JSON.
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }))
 * const read = async () => JSON.parse(await readFile('limits.json', 'utf8'))
 * const watch = watchPolicies(limiter, read, { every: '5s' })
 * await watch.refresh()
 */
export function watchPolicies(limiter: UpdatedLimiter, read: () => unknown, options: WatchOptions = {}): PolicyWatch {
  checkCount(arguments.length, 3, RULE)
  const names = ['every', 'timeout', 'onError'] as const
  const {
    every = DEFAULT_EVERY,
    timeout = DEFAULT_TIMEOUT,
    onError,
  } = optionsOf('INVALID_OPTION', 'watchPolicies', options, names)
  if (typeof limiter?.update !== 'function') {
    throw invalid('INVALID_OPTION', 'watchPolicies: limiter', 'must be a RateLimiter', limiter)
  }
  if (typeof read !== 'function') {
    throw invalid('INVALID_OPTION', 'watchPolicies: read', 'must be a function that returns policies', read)
  }
  if (onError !== undefined && typeof onError !== 'function') {
    throw invalid('INVALID_OPTION', 'watchPolicies: onError', 'must be a function', onError)
  }
  const [everyMs, timeoutMs] = [checkedMillis('every', every), checkedMillis('timeout', timeout)]
  return new Watch(limiter, read, everyMs, timeoutMs, onError as WatchOptions['onError'])
}

function checkedMillis(option: string, value: unknown): number {
  const name = `watchPolicies: ${option}`
  const millis = millisOf('INVALID_OPTION', name, value)
  if (millis < MIN_MS || millis > MAX_MS) {
    throw invalid('INVALID_OPTION', name, "must be from '10ms' to '1d'", value)
  }
  return millis
}

class Watch implements PolicyWatch {
  readonly #limiter: UpdatedLimiter
  readonly #read: () => unknown
  readonly #everyMs: number
  readonly #timeoutMs: number
  readonly #onError: (error: unknown) => void
  readonly #warnings = new Warnings()
  #timer: ReturnType<typeof timers.setTimeout> | undefined
  /** The read under way. A promise keeps the async context of its call alive. */
  #latest: Promise<void> | undefined
  /** The text of the policies that the limiter has; `undefined` before the first read. */
  #text: string | undefined
  #isStopped = false

  constructor(
    limiter: UpdatedLimiter,
    read: () => unknown,
    everyMs: number,
    timeoutMs: number,
    onError: WatchOptions['onError'] = (error) => this.#warn(error),
  ) {
    this.#limiter = limiter
    this.#read = read
    this.#everyMs = everyMs
    this.#timeoutMs = timeoutMs
    this.#onError = onError
    this.#schedule()
  }

  refresh(): Promise<void> {
    return this.#refresh(true)
  }

  /** @param keepsAlive - Whether the process waits for the read. */
  #refresh(keepsAlive: boolean): Promise<void> {
    const read = () => this.#readOnce(keepsAlive)
    const refreshed = this.#latest === undefined ? read() : this.#latest.then(read)
    const end = () => {
      if (this.#latest === latest) {
        this.#latest = undefined
      }
    }
    const latest: Promise<void> = refreshed.then(end, end)
    this.#latest = latest
    return refreshed
  }

  stop(): void {
    this.#isStopped = true
    timers.clearTimeout(this.#timer)
  }

  async #readOnce(keepsAlive: boolean): Promise<void> {
    const policies = await this.#readInTime(keepsAlive)
    const text = JSON.stringify(policies)
    if (this.#isStopped || text === this.#text) {
      return
    }
    if (text === undefined) {
      throw new TollgateError('INVALID_POLICY', 'watchPolicies: read must return policies, got undefined')
    }
    this.#limiter.update(policies as never)
    this.#text = text
  }

  /** Calls `read`, and rejects if it takes too long. */
  #readInTime(keepsAlive: boolean): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const timer = timers.setTimeout(() => {
        const rule = `read must return policies within ${this.#timeoutMs}ms`
        reject(new TollgateError('STORE_TIMEOUT', `watchPolicies: ${rule}`))
      }, this.#timeoutMs)
      if (!keepsAlive) {
        unref(timer)
      }
      const read = async () => this.#read()
      void read()
        .then(resolve, reject)
        .finally(() => timers.clearTimeout(timer))
    })
  }

  #schedule(): void {
    const timer = timers.setTimeout(() => {
      this.#refresh(false)
        .catch((error) => this.#onError(error))
        .finally(() => this.#isStopped || this.#schedule())
    }, this.#everyMs)
    unref(timer)
    this.#timer = timer
  }

  #warn(error: unknown): void {
    const reason = reasonOf(error)
    const message = `watchPolicies: the limiter keeps its numbers: ${reason}`
    this.#warnings.once('TOLLGATE_UPDATE_FAILED', message, reason)
  }
}

/** Lets the process end before a timer. Not all platforms have timers that are objects. */
function unref(timer: { unref?(): unknown }): void {
  timer.unref?.()
}
