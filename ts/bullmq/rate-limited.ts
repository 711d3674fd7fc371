import type { Decision } from '../api/decision.js'
import type { PermitSignal } from '../api/permit.js'
import { eitherSignal } from '../client/signals.js'
import { nameOfKey } from '../input/key-name.js'
import { checkCount, functionOf, shown } from '../input/options.js'
import type { Policy } from '../policies/policy.js'
import { windowMsOf } from '../policies/window.js'
import { callOf, charge } from './charge.js'
import { type JobRateLimitOptions, jobOptionsOf, type LimitedJob } from './options.js'
import { type RefusedTurn, Turns } from './turns.js'

/** Jobs that the limiter could not decide are tried again after this time, one by one. */
const UNDECIDED: RefusedTurn = { retryAfterMs: 1_000, stepMs: 10 }

/** The turns of these jobs. */
const UNDECIDED_GROUP = Symbol('undecided')

/** An idle worker picks delayed jobs up to 100 ms late. A burst that takes this long to refill makes up for it. */
const COARSE_MS = 1_000

/** A job of a group without a burst waits for its turn in a slot of the worker if it comes as little too early. */
const NEAR_MS = 25

/** Until the process has released a permit, the limiter does not know how long jobs take. */
const UNKNOWN_HOLD_MS = 1_000

/**
 * Wraps a processor of a BullMQ worker, so that a job runs only if its group has room under the limiter.
 *
 * A job that does not fit is moved to the delayed set until its turn, without counting an attempt. Meanwhile the worker
 * runs jobs of other groups. If the limiter has a `concurrency` policy, a job holds a permit while it runs. A job that
 * BullMQ delivers again after a stall is not charged again.
 *
 * The `signal` of the processor is aborted by BullMQ, or if the permit is lost. If the processor then rejects, a job
 * whose permit was lost is delayed, and does not fail. If the store fails, the job is delayed. A job whose cost never
 * fits fails without a retry. A wrong key, cost or tier fails the attempt.
 *
 * @param processor - A function. A processor in a file of its own is wrapped in that file.
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * const limiter = new RateLimiter(gcra({ limit: 10, period: '1s' }), { store, prefix: 'mail' })
 * new Worker('mail', rateLimited(send, { limiter, key: (job) => job.data.customer }), { connection })
 *
 * See `docs/bullmq.md`.
 */
export function rateLimited<J extends LimitedJob, R, K = string, T extends string = never, C = number>(
  processor: (job: J, token?: string, signal?: PermitSignal) => PromiseLike<R>,
  options: JobRateLimitOptions<J, K, T, C>,
): (job: J, token: string | undefined, signal: PermitSignal | undefined) => Promise<R> {
  checkCount(arguments.length, 2, 'rateLimited takes a processor and an object of options')
  const run = functionOf<typeof processor>('processor', processor)
  const checked = jobOptionsOf(options)
  const turns = new Turns()
  let hasReleased = false

  // BullMQ passes a signal only to a processor with three parameters.
  return async (job, token, signal) => {
    const call = await callOf(checked, job)
    const group = typeof call.key === 'string' ? call.key : nameOfKey(call.key)
    turns.unpark(group, job)
    let permit = await charge(checked, job, call)
    while (isNear(permit?.decision) && (await turns.hold(group, permit?.decision.retryAfterMs ?? 0))) {
      permit = await charge(checked, job, call)
    }
    const decision = permit?.decision
    const now = Date.now()
    if (decision === undefined || (decision.source === 'none' && !decision.allowed)) {
      return await delay(job, token, turns.next(UNDECIDED_GROUP, UNDECIDED, now))
    }
    if (decision.status === 'impossible') {
      throw neverFits(decision)
    }
    const policies = checked.limiter.tiers[call.tier ?? ''] ?? checked.limiter.policies
    const policy = policies[decision.policy] as Policy
    const cost = costIn(policy, call.cost)
    const isPermit = policy.algorithm === 'concurrency'
    if (!decision.allowed) {
      const holdMs = hasReleased ? decision.retryAfterMs : Math.min(decision.retryAfterMs, UNKNOWN_HOLD_MS)
      const isHeld = isPermit && decision.status === 'refused'
      // A limit of a `slidingLog` has the name of the policy before its own.
      const windowMs = windowMsOf(policy, decision.policy.split('.').at(-1))
      const stepMs = ((isHeld ? holdMs : windowMs) * cost) / decision.capacity
      const at = turns.next(group, { retryAfterMs: isHeld ? stepMs : decision.retryAfterMs, stepMs }, now)
      return await delay(job, token, at, () => {
        if (isHeld) {
          turns.park(group, job, at)
        } else if (decision.status === 'refused' && windowMs < COARSE_MS) {
          turns.promoteAt(job, at)
        }
      })
    }
    if (decision.remaining > 0 && (isPermit || decision.used <= cost) && !decision.repeated) {
      turns.clear(group)
    }
    const either = eitherSignal(signal, permit?.signal)
    try {
      return await run(job, token, either.signal as PermitSignal | undefined)
    } catch (error) {
      if (permit?.signal?.aborted && !signal?.aborted) {
        return await delay(job, token, Date.now())
      }
      throw error
    } finally {
      either.unlink()
      // A permit whose release fails expires by itself.
      await permit?.release?.().catch(() => {})
      hasReleased ||= permit?.release !== undefined
      void turns.promote(group)
    }
  }
}

/** Whether a job fits soon, and its group cannot make up for a later pick. */
function isNear(decision: Decision | undefined): boolean {
  return decision?.status === 'refused' && decision.capacity === 1 && decision.retryAfterMs <= NEAR_MS
}

/** Moves a job to the delayed set, and tells the worker so. */
async function delay(job: LimitedJob, token: string | undefined, at: number, onDelayed?: () => void): Promise<never> {
  // BullMQ knows its error by the name; its first releases of version 5 do so by the message.
  const error = Object.assign(new Error('DelayedError'), { name: 'DelayedError' })
  try {
    await job.moveToDelayed(at, token)
    onDelayed?.()
  } catch (cause) {
    // Another worker has the job, or will get it when its lock expires. To fail it would lose it.
    error.cause = cause
  }
  throw error
}

function neverFits({ policy, capacity }: Decision): Error {
  const message = `the cost of the job never fits under ${shown(policy)}: the largest cost is ${capacity}`
  return Object.assign(new Error(message), { name: 'UnrecoverableError' })
}

/** What a job costs under a policy. */
function costIn({ meter, defaultCost = 1 }: Policy, cost: unknown): number {
  if (typeof cost === 'object' && cost !== null) {
    return (cost as { readonly [meter: string]: number | undefined })[meter ?? 'calls'] ?? defaultCost
  }
  return typeof cost === 'number' ? cost : defaultCost
}
