import type { Decision } from '../api/decision.js'
import { TollgateError } from '../api/error.js'
import type { RateLimiter } from '../api/rate-limiter.js'
import type { Reservation } from '../api/reservation.js'
import type { WaitedOrRefused } from '../api/wait.js'
import { checkCount, invalid } from '../input/options.js'
import { type InstrumentOptions, optionsFor, Recorder } from './instruments.js'

/** Any limiter, whatever its keys, its policies and its store. */
export type AnyRateLimiter = RateLimiter<never, string, never>

/** A limiter's methods, as they are called here: with whatever they are given. */
type Methods<T> = (...given: unknown[]) => T

/** Those whose outcome is recorded. */
interface Recorded {
  take: Methods<Promise<Decision>>
  takeSync: Methods<Decision>
  takeMany: Methods<Promise<Decision[]>>
  takeUpTo: Methods<Promise<Decision>>
  reserve: Methods<Promise<Reservation>>
  wait: Methods<Promise<WaitedOrRefused>>
}

/**
 * A limiter that decides as the given one, which it asks, and records what becomes of the calls that take units:
 * `take`, `takeSync`, each key of `takeMany`, `takeUpTo`, `reserve` and `wait`. Everything else it hands on. Calls of the
 * given limiter itself are not recorded, and take no longer than ever.
 *
 * - `tollgate.decisions`, a counter: by `tollgate.limiter` (the `name`), `tollgate.policy` (the one that the numbers speak
 *   of), `tollgate.status` and `tollgate.source`, which are those of `Decision`.
 * - `tollgate.errors`, a counter: by `tollgate.limiter` and `error.type`, which is the `code` of the `TollgateError`. A `wait` that
 *   rejects with `WAIT_TOO_LONG` is a decision, and none of these.
 * - `tollgate.decision.duration`, a histogram in seconds, by the attributes of the decision or the error: how long the
 *   caller waited. That of `wait` is not recorded, as it is the time until the slot.
 *
 * No attribute ever holds a key.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * const limiter = instrument(new RateLimiter(gcra({ limit: 100, period: '1m' })), { name: 'api' })
 */
export function instrument<L extends AnyRateLimiter>(limiter: L, options: InstrumentOptions): L {
  checkCount(arguments.length, 2, 'instrument takes a limiter and an object of options')
  if (typeof limiter !== 'object' || limiter === null || typeof limiter.take !== 'function') {
    throw invalid('INVALID_OPTION', 'limiter', 'must be a RateLimiter', limiter)
  }
  const { name, meter } = optionsFor('instrument', options)
  const recorded = recordedBy(new Recorder(name, meter), limiter as unknown as Recorded)
  const own = { ...delegated(limiter), ...Object.getOwnPropertyDescriptors(recorded) }
  // Of the same class for `instanceof`. Every member stands on the object itself: those of the class would look for
  // private fields that only the limiter has.
  return Object.create(Object.getPrototypeOf(limiter), own) as L
}

/** A limiter's recorded methods. */
function recordedBy(recorder: Recorder, limiter: Recorded): Recorded {
  /** Records what a promise brings. The caller gets a promise that follows it, so that a failure nobody handles is heard of. */
  const recording = <T>(promise: Promise<T>, decisionOf: (answer: T) => Decision, start?: number): Promise<T> => {
    const millis = () => (start === undefined ? undefined : performance.now() - start)
    return promise.then(
      (answer) => {
        recorder.decided(decisionOf(answer), millis())
        return answer
      },
      (error) => {
        // A `wait` that is refused rejects with the decision.
        const refusal = TollgateError.is(error) ? error.decision : undefined
        if (refusal === undefined) {
          recorder.failed(error, millis())
        } else {
          recorder.decided(refusal, millis())
        }
        throw error
      },
    )
  }
  const itself = (decision: Decision) => decision
  return {
    // As `recording` does it, with fewer closures: it is the call that is made most. The limiter refuses what is surplus.
    take(key, cost) {
      const start = performance.now()
      const taken = arguments.length > 2 ? limiter.take(...arguments) : limiter.take(key, cost)
      return taken.then(
        (decision) => {
          recorder.decided(decision, performance.now() - start)
          return decision
        },
        (error) => {
          recorder.failed(error, performance.now() - start)
          throw error
        },
      )
    },
    takeSync(key, cost) {
      const start = performance.now()
      let decision: Decision
      try {
        decision = arguments.length > 2 ? limiter.takeSync(...arguments) : limiter.takeSync(key, cost)
      } catch (error) {
        recorder.failed(error, performance.now() - start)
        throw error
      }
      recorder.decided(decision, performance.now() - start)
      return decision
    },
    async takeMany(...given) {
      const start = performance.now()
      const record = (result: Decision | TollgateError) => {
        const millis = performance.now() - start
        return result instanceof Error ? recorder.failed(result, millis) : recorder.decided(result, millis)
      }
      try {
        const decisions = await limiter.takeMany(...given)
        decisions.forEach(record)
        return decisions
      } catch (error) {
        // Without results nobody was asked.
        const results = TollgateError.is(error) ? error.results : undefined
        const failed = results ?? [error as TollgateError]
        failed.forEach(record)
        throw error
      }
    },
    takeUpTo(...given) {
      const start = performance.now()
      return recording(limiter.takeUpTo(...given), itself, start)
    },
    reserve(...given) {
      const start = performance.now()
      return recording(limiter.reserve(...given), ({ decision }) => decision, start)
    },
    wait: (...given) => recording(limiter.wait(...given), itself),
  }
}

/** A limiter's members, handed on to it. */
function delegated(limiter: object): PropertyDescriptorMap {
  const members: PropertyDescriptorMap = {}
  for (let owner = limiter; owner !== Object.prototype && owner !== null; owner = Object.getPrototypeOf(owner)) {
    for (const name of Reflect.ownKeys(owner)) {
      if (name !== 'constructor' && !Object.hasOwn(members, name)) {
        members[name as string] = handedOn(limiter, name)
      }
    }
  }
  return members
}

function handedOn(limiter: object, name: string | symbol): PropertyDescriptor {
  const member: unknown = Reflect.get(limiter, name)
  const value = typeof member === 'function' ? member.bind(limiter) : member
  return { value, enumerable: Object.hasOwn(limiter, name), writable: false, configurable: true }
}
