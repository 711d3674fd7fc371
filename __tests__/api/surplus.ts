/** The arguments of every public function, for the tests that pass one more. */
import { failureOf, rejectionOf } from '../failure.js'

/** The maximum arguments of a function, and the words in which its error lists them. */
export type Signature = readonly [args: readonly unknown[], rule: string]

const policy = { algorithm: 'gcra', limit: 9, period: 60_000, burst: 9 }
const window = { limit: 1, window: '1s' }
const options = 'an object of options'
const duration = '1s'

/**
 * The functions of `tollgate` and `tollgate/wasm` by name. Constructors and methods have the names
 * of their classes.
 */
export const CORE: Readonly<Record<string, Signature>> = {
  gcra: [[{ limit: 1, period: '1s' }], `gcra takes ${options}`],
  tokenBucket: [[{ capacity: 1, refill: { tokens: 1, every: '1s' } }], `tokenBucket takes ${options}`],
  tiers: [[{ free: policy }], 'tiers takes an object of policies'],
  leakyBucket: [[{ capacity: 1, leak: { units: 1, every: '1s' } }], `leakyBucket takes ${options}`],
  fixedWindow: [[window], `fixedWindow takes ${options}`],
  calendarWindow: [[{ limit: 1, every: 'day' }], `calendarWindow takes ${options}`],
  slidingWindow: [[window], `slidingWindow takes ${options}`],
  slidingCounter: [[window], `slidingCounter takes ${options}`],
  slidingLog: [[window], `slidingLog takes ${options}`],
  concurrency: [[{ limit: 1 }], `concurrency takes ${options}`],
  RateLimiter: [[policy, {}], `RateLimiter takes a policy, or policies by name, and ${options}`],
  'RateLimiter.take': [['a', 1], 'take takes a key and a cost or options'],
  'RateLimiter.takeSync': [['a', 1], 'takeSync takes a key and a cost or options'],
  'RateLimiter.tryTake': [['a', 1], 'tryTake takes a key and a cost or options'],
  'RateLimiter.takeMany': [[['a'], 1], 'takeMany takes an array of keys, and their costs or options'],
  'RateLimiter.takeUpTo': [['a', 1, {}], 'takeUpTo takes a key, units and options'],
  'RateLimiter.peek': [['a', 1], 'peek takes a key and a cost or options'],
  'RateLimiter.reserve': [['a', 1, {}], 'reserve takes a key, units and options'],
  'RateLimiter.settle': [['a', 1], 'settle takes the id of a reservation and the actual units'],
  'RateLimiter.penalize': [['a', 1, {}], 'penalize takes a key, units and options'],
  'RateLimiter.refund': [[{}, 1, {}], 'refund takes a decision, units and options'],
  'RateLimiter.wait': [['a', {}], 'wait takes a key and options'],
  'RateLimiter.acquire': [['a', {}], 'acquire takes a key and options'],
  'RateLimiter.reset': [['a', {}], 'reset takes a key and options'],
  'RateLimiter.block': [['a', duration, {}], 'block takes a key, a duration and options'],
  'RateLimiter.unblock': [['a', {}], 'unblock takes a key and options'],
  'RateLimiter.override': [['a', { limit: 5 }, { ttl: duration }], 'override takes a key, numbers and options'],
  'RateLimiter.clearOverride': [['a', {}], 'clearOverride takes a key and options'],
  'RateLimiter.update': [[policy], 'update takes the policies'],
  watchPolicies: [
    [{ update() {} }, () => policy, {}],
    'watchPolicies takes a limiter, a function and an object of options',
  ],
  'Reservation.commit': [[1], 'commit takes the actual units'],
  'Reservation.cancel': [[], 'cancel takes no arguments'],
  'Reservation.extend': [[1, {}], 'extend takes units and an object of options'],
  'Reservation.renew': [['1m'], 'renew takes the time until the reservation expires'],
  MemoryStore: [[{}], `MemoryStore takes ${options}`],
}

/** The methods of a limiter that return no promise. */
export const SYNC_METHODS = ['takeSync', 'update']

/** Functions that accept any arguments, each with the reason. */
const LENIENT = [
  // Signal and promise handlers pass arguments to these, and nobody would see an error.
  /\.(close|shutdown|ready|Symbol\(\w+\.asyncDispose\))$/,
  // As predicates they are passed to `filter` and `find`.
  /^TollgateError(\.is)?$/,
  // Internal: only limiters and stores call them.
  /Store\.open(CallBuffer)?$/,
]

/** The names of a module's functions, except those that accept any arguments. */
export function functionsOf(module: object): string[] {
  const names = Object.entries(module).flatMap(([name, value]) => {
    if (typeof value !== 'function') {
      return []
    }
    const own = Object.getOwnPropertyNames(value).filter((key) => !['length', 'name', 'prototype'].includes(key))
    const members = [...own.filter((key) => typeof value[key] === 'function'), ...methodsOf(value.prototype)]
    return [name, ...members.map((member) => `${name}.${member}`)]
  })
  return names.filter((name) => !LENIENT.some((pattern) => pattern.test(name)))
}

/** The names of an object's own and inherited methods. */
export function methodsOf(object: object | undefined): string[] {
  const names = new Set<string>()
  for (let owner = object; owner && owner !== Object.prototype; owner = Object.getPrototypeOf(owner)) {
    for (const key of Reflect.ownKeys(owner)) {
      if (owner === Error.prototype || key === 'constructor') {
        continue
      }
      if (typeof Object.getOwnPropertyDescriptor(owner, key)?.value === 'function') {
        names.add(String(key))
      }
    }
  }
  return [...names]
}

/**
 * Calls a function with one argument more than it accepts.
 *
 * @param subject - The module, class or object that has the function.
 */
export async function refusesSurplus(subject: object, name: string, [args, rule]: Signature, isAsync: boolean) {
  const call = Reflect.get(subject, name) as (...given: unknown[]) => unknown
  const isClass = /^class\b/.test(Function.prototype.toString.call(call))
  const count = args.length + 1
  for (const surplus of [undefined, {}]) {
    const given = [...args, surplus]
    const run = () => (isClass ? Reflect.construct(call, given) : Reflect.apply(call, subject, given))
    const { code, message } = isAsync ? await rejectionOf(run() as Promise<unknown>) : failureOf(run)
    // Some errors also name the fix.
    expect([code, message.replace(/(?<=got \d+ arguments?): .+$/, '')]).toEqual([
      'INVALID_OPTION',
      `${rule}, got ${count} ${count === 1 ? 'argument' : 'arguments'}`,
    ])
  }
}
