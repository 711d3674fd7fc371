import type { Decision } from '../api/decision.js'
import { TollgateError } from '../api/error.js'
import type { Permit } from '../api/permit.js'
import type { RateLimiter } from '../api/rate-limiter.js'
import type { Reservation } from '../api/reservation.js'
import type { WaitedOrRefused } from '../api/wait.js'
import { checkCount, invalid } from '../input/options.js'
import { ATTRIBUTES, CallRecorder, type InstrumentOptions, optionsFor } from './instruments.js'
import { recordUnits } from './units.js'

/** What every limiter has, whatever its policies. */
type AnyRateLimiter = Pick<RateLimiter, 'storeKind' | 'close'> & { readonly take: unknown }

type AnyMethod<T> = (...args: unknown[]) => T

interface RecordedMethods {
  take: AnyMethod<Promise<Decision>>
  tryTake: AnyMethod<Promise<boolean>>
  takeSync: AnyMethod<Decision>
  takeMany: AnyMethod<Promise<Decision[]>>
  takeUpTo: AnyMethod<Promise<Decision>>
  reserve: AnyMethod<Promise<Reservation>>
  wait: AnyMethod<Promise<WaitedOrRefused>>
  acquire: AnyMethod<Promise<Permit>>
}

/**
 * Returns a limiter that delegates to the given one and records the calls that take units: `take`, `tryTake`,
 * `takeSync`, each key of `takeMany`, `takeUpTo`, `reserve`, `wait` and `acquire`. Other calls, and calls on the given
 * limiter itself, are not recorded.
 *
 * - `tollgate.decisions`, a counter, with `tollgate.limiter` (the `name`), `tollgate.policy` (the policy that the
 *   decision's numbers belong to), `tollgate.status` and `tollgate.source`, as in `Decision`.
 * - `tollgate.errors`, a counter, with `tollgate.limiter` and `error.type`, the `code` of the `TollgateError`. A `wait`
 *   that rejects with `WAIT_TOO_LONG` counts as a decision.
 * - `tollgate.decision.duration`, a histogram in seconds, with the attributes of the decision or the error: the time
 *   that the caller waited. Not recorded for `wait` and `acquire`, which wait for a slot or a permit.
 * - `tollgate.units`, a counter of the units of admitted calls by meter, with `tollgate.limiter` and `tollgate.meter`.
 *   Recorded only if policies of the limiter have a `meter`.
 * - `tollgate.limiters`, an up-down counter of the instrumented limiters, with `tollgate.limiter` and
 *   `tollgate.store.kind`: `embedded` or `redis`.
 *
 * No attribute holds a key.
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
  const limiters = meter.createUpDownCounter('tollgate.limiters', {
    description: 'Instrumented limiters, by the place of their counts.',
    unit: '{limiter}',
  })
  limiters.add(1, { [ATTRIBUTES.limiter]: name, [ATTRIBUTES.storeKind]: limiter.storeKind })
  const recorder = new CallRecorder(name, meter)
  const recorded = recordedMethodsOf(recorder, limiter as unknown as RecordedMethods)
  recordUnits(recorded, limiter as unknown as RateLimiter, (of, units) => recorder.recordUnits(of, units))
  const own = { ...delegated(limiter), ...Object.getOwnPropertyDescriptors(recorded) }
  // The prototype is that of the limiter, for `instanceof`. The object has all members itself: those of the prototype
  // need private fields that only the limiter has.
  return Object.create(Object.getPrototypeOf(limiter), own) as L
}

function recordedMethodsOf(recorder: CallRecorder, limiter: RecordedMethods): RecordedMethods {
  // The caller gets the derived promise, so Node reports a rejection that nobody handles.
  const recordResult = <T>(promise: Promise<T>, decisionOf: (answer: T) => Decision, start?: number): Promise<T> => {
    const millis = () => (start === undefined ? undefined : performance.now() - start)
    return promise.then(
      (answer) => {
        recorder.recordDecision(decisionOf(answer), millis())
        return answer
      },
      (error) => {
        // A `wait` that is refused rejects with the decision.
        const refusal = TollgateError.is(error) ? error.decision : undefined
        if (refusal === undefined) {
          recorder.recordError(error, millis())
        } else {
          recorder.recordDecision(refusal, millis())
        }
        throw error
      },
    )
  }
  const identity = (decision: Decision) => decision
  const recorded: RecordedMethods = {
    // As `recordResult`, with fewer closures: `take` is called most often. The limiter rejects surplus arguments.
    take(key, cost) {
      const start = performance.now()
      const promise = arguments.length > 2 ? limiter.take(...arguments) : limiter.take(key, cost)
      return promise.then(
        (decision) => {
          recorder.recordDecision(decision, performance.now() - start)
          return decision
        },
        (error) => {
          recorder.recordError(error, performance.now() - start)
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
        recorder.recordError(error, performance.now() - start)
        throw error
      }
      recorder.recordDecision(decision, performance.now() - start)
      return decision
    },
    async takeMany(...args) {
      const start = performance.now()
      const record = (result: Decision | TollgateError) => {
        const millis = performance.now() - start
        return result instanceof Error ? recorder.recordError(result, millis) : recorder.recordDecision(result, millis)
      }
      try {
        const decisions = await limiter.takeMany(...args)
        decisions.forEach(record)
        return decisions
      } catch (error) {
        // Without `results`, the call failed before any key was decided.
        const results = TollgateError.is(error) ? error.results : undefined
        const failed = results ?? [error as TollgateError]
        failed.forEach(record)
        throw error
      }
    },
    takeUpTo(...args) {
      const start = performance.now()
      return recordResult(limiter.takeUpTo(...args), identity, start)
    },
    reserve(...args) {
      const start = performance.now()
      return recordResult(limiter.reserve(...args), ({ decision }) => decision, start)
    },
    wait: (...args) => recordResult(limiter.wait(...args), identity),
    acquire: (...args) => recordResult(limiter.acquire(...args), ({ decision }) => decision),
    // The limiter rejects surplus arguments.
    async tryTake(...args) {
      return args.length > 2 ? limiter.tryTake(...args) : (await recorded.take(...args)).allowed
    },
  }
  return recorded
}

function delegated(limiter: object): PropertyDescriptorMap {
  const members: PropertyDescriptorMap = {}
  for (let owner = limiter; owner !== Object.prototype && owner !== null; owner = Object.getPrototypeOf(owner)) {
    for (const name of Reflect.ownKeys(owner)) {
      if (name !== 'constructor' && !Object.hasOwn(members, name)) {
        members[name as string] = delegatedMember(limiter, name)
      }
    }
  }
  return members
}

function delegatedMember(limiter: object, name: string | symbol): PropertyDescriptor {
  const member: unknown = Reflect.get(limiter, name)
  const shared = { enumerable: Object.hasOwn(limiter, name), configurable: true }
  // An update replaces the policies, so other members are read each time.
  return typeof member === 'function'
    ? { ...shared, value: member.bind(limiter), writable: false }
    : { ...shared, get: () => Reflect.get(limiter, name) }
}
