import type { Decision } from '../api/decision.js'
import type { AbortSignalLike } from '../api/wait.js'
import { type Duration, wholeMillis } from '../input/duration.js'
import { functionOf, invalid, optionsOf, trueOrFalse } from '../input/options.js'
import type { Policy } from '../policies/policy.js'

/**
 * The part of a limiter that the wrapper needs. Every `RateLimiter` has it.
 *
 * @typeParam K - The type of the keys.
 * @typeParam T - The names of the tiers; `never` without tiers.
 * @typeParam C - The cost of a job: a number, or an object by meter.
 */
export interface JobLimiter<K = string, T extends string = never, C = number> {
  /** The policies by name. With a `concurrency` among them, each job holds a permit while it runs. */
  readonly policies: { readonly [name: string]: Policy }
  /** The policies of each tier; without tiers an empty object. */
  readonly tiers: { readonly [Tier in T]: unknown }
  /** Charges a job, under policies without `concurrency`. */
  readonly take: unknown
  /** Charges a job and takes its permit, under policies with `concurrency`. */
  readonly acquire: unknown
  /** Previews a decision. */
  peek(key: K, cost?: number | { readonly cost?: C; readonly tier?: string }): Promise<unknown>
}

/** The part of a job of BullMQ that is used. */
export interface LimitedJob {
  /** The name of the job in its queue. */
  readonly id?: string | undefined
  /** When the job was added: epoch milliseconds. */
  readonly timestamp: number
  /** How many attempts have ended. */
  readonly attemptsMade: number
  /** How often a worker has picked the job. */
  readonly attemptsStarted: number
  /** The prefix and the name of the queue. */
  readonly queueQualifiedName: string
  /** Moves the job to the delayed set. */
  moveToDelayed(timestamp: number, token?: string): Promise<void>
  /** Ends the delay of the job. */
  promote(): Promise<void>
}

/**
 * The options of {@link rateLimited}.
 *
 * @typeParam J - The jobs.
 * @typeParam K - The limiter's keys.
 * @typeParam T - The names of its tiers.
 * @typeParam C - The cost of a job: a number, or an object by meter.
 *
 * @example
 * const options: JobRateLimitOptions = { limiter, key: ({ queueQualifiedName }) => queueQualifiedName }
 * const worker = new Worker('mail', rateLimited(send, options), { connection })
 */
export interface JobRateLimitOptions<J = LimitedJob, K = string, T extends string = never, C = number> {
  /** Counts the jobs. You close it, after the worker. */
  readonly limiter: JobLimiter<K, T, C>
  /** The group of a job, or a function that tells it. Jobs of one group share its limits. */
  readonly key: K | ((job: J) => K | PromiseLike<K>)
  /** The cost of a job, or a function that tells it. Default: 1, or the `defaultCost` of each meter. */
  readonly cost?: C | ((job: J) => C | PromiseLike<C>)
  /** The tier of the limiter, or a function that tells it. Default: none. */
  readonly tier?: T | ((job: J) => T | PromiseLike<T>)
  /** Whether a retry after a failed attempt is charged again. Default: `true`. */
  readonly chargeRetries?: boolean
  /**
   * How long the charge of a job is remembered, so that a job that has stalled is not charged again: up to a day. It
   * begins when the job begins, so choose it longer than a job, `lockDuration` and `stalledInterval` together take.
   * Default: `'5m'`.
   */
  readonly idTtl?: Duration
}

/** A permit of any limiter. */
export interface JobPermit {
  readonly allowed: boolean
  readonly decision: Decision
  readonly signal?: AbortSignalLike
  release?(): Promise<boolean>
}

/** The methods of a limiter, as the wrapper calls them. */
interface AnyJobLimiter {
  readonly policies: { readonly [name: string]: Policy }
  readonly tiers: { readonly [tier: string]: { readonly [name: string]: Policy } | undefined }
  take(key: unknown, options: unknown): Promise<Decision>
  acquire(key: unknown, options: unknown): Promise<JobPermit>
}

export type CheckedJobOptions = ReturnType<typeof jobOptionsOf>

const OPTIONS = ['limiter', 'key', 'cost', 'tier', 'chargeRetries', 'idTtl'] as const

const MAX_ID_TTL_MS = 86_400_000

/** Checks the options of {@link rateLimited}. */
export function jobOptionsOf(value: unknown) {
  const options = optionsOf('INVALID_OPTION', 'rateLimited', value, OPTIONS)
  const { limiter, key, cost, tier, chargeRetries = true, idTtl = '5m' } = options
  if (!isLimiter(limiter)) {
    throw invalid('INVALID_OPTION', 'limiter', 'must be a RateLimiter', limiter)
  }
  if (key === undefined) {
    throw invalid('INVALID_OPTION', 'key', 'must be a key, or a function that tells the key of a job', key)
  }
  return {
    limiter,
    keyOf: ofJob('key', key),
    costOf: ofJob('cost', cost),
    tierOf: ofJob('tier', tier),
    chargeRetries: trueOrFalse('INVALID_OPTION', 'chargeRetries', chargeRetries),
    idTtl: `${wholeMillis('idTtl', idTtl, 1, MAX_ID_TTL_MS)}ms`,
    hasPermits: Object.values(limiter.policies).some(({ algorithm }) => algorithm === 'concurrency'),
  }
}

function ofJob(name: string, value: unknown): (job: LimitedJob) => unknown {
  return typeof value === 'function' ? functionOf<(job: LimitedJob) => unknown>(name, value) : () => value
}

function isLimiter(value: unknown): value is AnyJobLimiter {
  const limiter = value as Partial<AnyJobLimiter> | null | undefined
  return typeof limiter?.take === 'function' && typeof limiter.acquire === 'function' && limiter.policies !== undefined
}
