import type { Decision, NotAllowed } from '../../api/decision.js'
import { TollgateError } from '../../api/error.js'
import { costsOf, plainUnitsOf } from '../../api/metered-units.js'
import { checkBareNumber, type Duration, MAX_WAIT_MS, wholeMillis } from '../../input/duration.js'
import { invalid, isPlain, optionalFunction, optionsOf, shown, trueOrFalse, wholeNumber } from '../../input/options.js'
import { type MeterSet, meterSetOf } from '../../policies/meter.js'
import { isPolicyLike } from '../../policies/policy.js'
import { isRate } from '../../policies/window.js'
import { type HeaderForm, headerFormsOf } from './header-forms.js'
import type { DescribedLimiter } from './rate-limit-headers.js'

export type { HeaderForm } from './header-forms.js'
export type { DescribedLimiter } from './rate-limit-headers.js'

/** A value or a promise of one. */
export type Awaitable<T> = T | PromiseLike<T>

/**
 * The part of a limiter that a middleware needs. Every `RateLimiter` has it.
 *
 * @typeParam U - The cost of a call: a number, or an object by meter.
 */
export interface MiddlewareLimiter<K = string, N extends string = string, U = number> extends DescribedLimiter<N> {
  /** Decides, and charges the cost if it allows the request. */
  take(key: K, cost?: number | { readonly cost?: U; readonly tier?: string }): Promise<Decision<N>>
  /**
   * Takes units when they fit, and resolves then; or immediately with a refusal if that is more than `maxWait` away.
   * Only `delay` needs it.
   */
  readonly wait?: unknown
  /** Gives the units of a decision back. */
  refund(decision: Decision<N>): Promise<unknown>
}

/** The body of a refusal: a text, or an object that is sent as JSON. Functions are excluded by their `bind`. */
export type Message =
  | string
  | (object & { readonly bind?: never })
  | { readonly bind?: never; readonly [name: string]: unknown }

/**
 * A return value of `onInvalidInput`. With a `key` or a `cost`, the limiter decides on the request by these. Otherwise
 * the middleware answers the request with `statusCode` and `message`.
 *
 * @typeParam K - The limiter's keys.
 * @typeParam U - The cost of a call.
 */
export interface InvalidInputAnswer<K, U = number> {
  /** The key that the request counts for. */
  readonly key?: K
  /** The units that the request costs. */
  readonly cost?: U
  /** The status of the answer. Default: 400. */
  readonly statusCode?: number
  /** The body of the answer. Default: `'Bad Request'`. */
  readonly message?: Message
}

/** How a request ended: with a response, or because its client disconnected before it had the whole response. */
export type RequestEnd =
  | {
      /** The client has not disconnected before the end of the response. */
      readonly aborted: false
      /** The status of the response. If an error was thrown before there was a response: 500. */
      readonly status: number
    }
  | {
      /** The client disconnected before the end of the response, or the connection was closed. */
      readonly aborted: true
      /** The status of the response that had begun; `undefined` if none was sent. */
      readonly status: number | undefined
    }

/**
 * The requests whose units are refunded: `'failed'`, those answered with a status of 400 or more; `'successful'`, those
 * answered with another status; or a function that decides.
 *
 * A request whose client disconnected before it had the whole response is neither, so that a client cannot try for free
 * and disconnect. A function may refund it: `(request, { aborted, status }) => aborted || status >= 400`.
 */
export type RefundWhen<A extends readonly unknown[]> =
  | 'failed'
  | 'successful'
  | ((...args: [...request: A, end: RequestEnd]) => Awaitable<boolean>)

/**
 * The options that all frameworks share. Every function may be async. It receives the arguments that its framework
 * passes for a request.
 *
 * @typeParam K - The limiter's keys.
 * @typeParam N - The names of its limits.
 * @typeParam A - The arguments that the framework passes for a request.
 * @typeParam R - The framework's responses, if functions may return them.
 * @typeParam U - The cost of a call of the limiter.
 */
export interface RateLimitOptions<K, N extends string, A extends readonly unknown[], R = never, U = number> {
  /** The limiter that decides. You close it yourself. */
  readonly limiter: MiddlewareLimiter<K, N, U>
  /**
   * The units that a request costs: a whole number from 1. Default, also if a function returns `undefined`: 1. For a
   * limiter whose policies have a `meter`, the units by meter: `cost: (request) => ({ tokens: tokensOf(request) })`.
   */
  readonly cost?: CostBy<U> | ((...args: A) => Awaitable<CostBy<U>>)
  /**
   * The tier of a request. Required for a limiter with tiers; other limiters have none. An unknown tier is an error of
   * the program, as if `key` had thrown it on purpose.
   */
  readonly tier?: string | ((...args: A) => Awaitable<string>)
  /**
   * Delays a request that is over the limit until its cost fits, instead of refusing it: the longest delay, up to an
   * hour. Requests proceed one by one, in the order in which the store received them. A request whose turn is further
   * away is refused immediately. If its client disconnects, the request gives up its turn, and does not reach the
   * route. Needs a limiter that can `wait`: its policies are `gcra`, `leakyBucket` or continuous `tokenBucket`.
   * Default: no request is delayed.
   */
  readonly delay?: Duration
  /** Returns true for requests that the limiter ignores. */
  readonly skip?: (...args: A) => Awaitable<boolean>
  /**
   * The status of a refusal: a whole number from 400 to 599. Default: 429. The status is always 413 if the request
   * costs more than its limit can ever allow (`status: 'impossible'`).
   */
  readonly statusCode?: number
  /**
   * The status of a refusal that no store decided (`source: 'none'`), under the limiter's `onStoreFailure: 'refuse'`: a
   * whole number from 400 to 599. No limit was exceeded, so the default is 503.
   */
  readonly storeFailureStatusCode?: number
  /**
   * The body of a refusal. Default: `'Too many requests, please try again later.'`; of a refusal that no store decided:
   * `'Service unavailable, please try again later.'`; for a cost that can never fit:
   * `'This request costs more than its limit can ever allow. Do not send it again unchanged.'`
   */
  readonly message?: Message | ((...args: [...request: A, decision: NotAllowed<N>]) => Awaitable<Message>)
  /**
   * Whether refusals, and answers to requests without a valid key or cost, are sent as `application/problem+json` (RFC
   * 9457). The problem's `type` is one of draft-ietf-httpapi-ratelimit-headers, and `violated-policies` has the names
   * of the limits that refused. A `message` that you set becomes `detail` if it is a text; the members of an object
   * are added to the problem. Default: `false`.
   */
  readonly problemDetails?: boolean
  /**
   * Whether a text of more than 1024 bytes of UTF-8 in a key is replaced by `long-key:sha256:` and its SHA-256 digest
   * in lower-case hexadecimal digits. With `false` such a request has no valid key. Default: `true`.
   */
  readonly hashLongKeys?: boolean
  /**
   * The form of the rate limit headers, or several forms, for a public API that changes its form: `['draft-6',
   * 'draft-8']`. Only one of draft 8 and draft 11 is possible, because both use the same headers. `RateLimit-Policy`,
   * which draft 6 also has, is then sent in the later form. `false` disables all headers, including `Retry-After`.
   * Default: `'draft-8'`, and `false` in shadow mode.
   */
  readonly headers?: HeaderForm | readonly HeaderForm[] | false
  /** The name of the request's property that holds the decision for later handlers. Default: `'rateLimit'`. */
  readonly requestProperty?: string
  /** Called for each refused request, also in shadow mode, and awaited. */
  readonly onRefused?: (...args: [...request: A, decision: NotAllowed<N>]) => Awaitable<void>
  /**
   * Called, and awaited, for each request from which no key or cost can be made. Its return value decides how the
   * request is handled: see {@link InvalidInputAnswer}. Default, also if it returns nothing: status 400. Without
   * `onInvalidInput` the first such request emits a process warning.
   *
   * Such a request has a key or a cost that breaks the limiter's rules; or `key`, `cost`, `tier` or `skip` throws one
   * of JavaScript's own errors for it (`TypeError`, `RangeError`, `SyntaxError`, `URIError`) without a status or a
   * cause. Other errors count as thrown on purpose, and go to `onError`.
   */
  readonly onInvalidInput?: (
    error: unknown,
    ...request: A
  ) => Awaitable<InvalidInputAnswer<K, CostBy<U>> | R | undefined> | Awaitable<void>
  /** The requests whose units are refunded when they end: see {@link RefundWhen}. At most once each. Default: none. */
  readonly refundWhen?: RefundWhen<A>
  /**
   * Shadow mode: the limiter decides and charges, the decision is attached to the request, and `onRefused` is called;
   * but every request passes, even if no decision can be made. Default: `false`.
   */
  readonly observe?: boolean
}

/**
 * The cost `U`, which the limiter alone determines. `NoInfer` would not do: with it the compiler accepts no object for a
 * union of a number and an object.
 */
type CostBy<U> = [U][U extends unknown ? 0 : never]

/** Requires the option `cost` if calls of the limiter must name the units of a meter. */
export type CostRequired<U> = [U] extends [number]
  ? unknown
  : Record<never, never> extends U
    ? unknown
    : { readonly cost: unknown }

/** Makes the key of a request. */
export type KeyFunction<K, A extends readonly unknown[]> = (...args: A) => Awaitable<K>

/**
 * The `key` option where it has a default, the client's address. It is required if the limiter's keys have parts. The
 * type of keys, `K`, comes from the limiter alone.
 */
export type KeyOrAddress<K, A extends readonly unknown[]> = [K] extends [string]
  ? {
      /** Makes the key of a request. Default: `ipKey` of the client's address, as the framework reports it. */
      readonly key?: KeyFunction<NoInfer<K>, A>
    }
  : KeyRequired<K, A>

/** The `key` option where it has no default. The type of keys comes from the limiter alone. */
export interface KeyRequired<K, A extends readonly unknown[]> {
  /** Makes the key of a request. */
  readonly key: KeyFunction<NoInfer<K>, A>
}

/** The cost of a call of any limiter. */
export type AnyCost = number | { readonly [meter: string]: number }

/**
 * The options after validation. `R` is the arguments that a framework passes for a request.
 *
 * @hidden
 */
export interface CheckedOptions<R extends readonly unknown[]> {
  readonly limiter: MiddlewareLimiter<unknown, string, AnyCost>
  /** Whether costs are by meter. */
  readonly isMetered: boolean
  readonly key: KeyFunction<unknown, R> | undefined
  readonly cost: AnyCost | ((...args: R) => Awaitable<AnyCost>) | undefined
  readonly tier: string | ((...args: R) => Awaitable<string>) | undefined
  readonly delayMs: number | undefined
  readonly skip: ((...args: R) => Awaitable<boolean>) | undefined
  readonly statusCode: number
  readonly storeFailureStatusCode: number
  readonly message: Message | undefined | ((...args: [...request: R, decision: NotAllowed]) => Awaitable<Message>)
  readonly problemDetails: boolean
  readonly hashLongKeys: boolean
  readonly headers: readonly HeaderForm[] | false
  readonly requestProperty: string
  readonly onRefused: ((...args: [...request: R, decision: NotAllowed]) => Awaitable<void>) | undefined
  readonly onInvalidInput: ((error: unknown, ...request: R) => Awaitable<unknown>) | undefined
  readonly refundWhen: RefundWhen<R> | undefined
  readonly observe: boolean
}

const NAMES = [
  'limiter',
  'key',
  'cost',
  'tier',
  'delay',
  'skip',
  'handler',
  'statusCode',
  'storeFailureStatusCode',
  'message',
  'problemDetails',
  'hashLongKeys',
  'headers',
  'requestProperty',
  'onRefused',
  'onInvalidInput',
  'onError',
  'refundWhen',
  'observe',
] as const

/** Options of a limiter that users look for here. */
const OPTIONS_OF_LIMITER: readonly string[] = ['prefix', 'onStoreFailure', 'ban', 'blockFor', 'local', 'tag']

/** Numbers of a policy that users look for here. */
const NUMBERS_OF_POLICY: readonly string[] = ['limit', 'max', 'points', 'period', 'window', 'windowMs', 'duration']

/** Says where an option of a limiter or of its policy belongs. */
function adviceOnName(name: string): string | undefined {
  if (NUMBERS_OF_POLICY.includes(name)) {
    return 'Write { limiter: new RateLimiter(gcra({ limit, period })) }'
  }
  const isLimiters = OPTIONS_OF_LIMITER.includes(name)
  return isLimiters ? `it is an option of the limiter: new RateLimiter(policy, { ${name} })` : undefined
}

/**
 * Validates the options of a middleware.
 *
 * @param where - The name of the middleware's function, for messages.
 * @param adapter - What the framework knows and has: the client's address, the default key; options of its own, which
 * it checks itself; and permits.
 */
export function checkedOptions<R extends readonly unknown[]>(
  where: string,
  value: unknown,
  adapter: {
    readonly addressOf?: unknown
    readonly optionNames?: readonly string[]
    readonly takesPermits?: boolean
  },
): CheckedOptions<R> {
  const { optionNames = [], takesPermits = false } = adapter
  const option = optionFor(value)
  if (option !== undefined) {
    throw new TollgateError('INVALID_OPTION', `${where} takes an object of options: ${where}({ ${option} })`)
  }
  const names = [...NAMES, ...optionNames]
  type Given = { readonly [Name in (typeof NAMES)[number]]?: unknown }
  const given: Given = optionsOf('INVALID_OPTION', where, value, names, adviceOnName)
  const limiter = limiterOf(where, given.limiter, takesPermits)
  for (const name of ['key', 'skip', 'handler', 'onRefused', 'onInvalidInput', 'onError'] as const) {
    optionalFunction(`${where}: ${name}`, given[name])
  }
  if (given.key === undefined) {
    checkAddressed(where, limiter, adapter.addressOf !== undefined)
  }
  const observe = booleanOf(`${where}: observe`, given.observe, false)
  const headers = given.headers ?? (observe ? false : 'draft-8')
  const statusOf = (name: 'statusCode' | 'storeFailureStatusCode', usual: number) =>
    wholeNumber('INVALID_OPTION', `${where}: ${name}`, given[name] ?? usual, 400, 599)
  return {
    limiter,
    key: given.key,
    isMetered: metersOf(limiter) !== undefined,
    cost: costIn(`${where}: cost`, limiter, given.cost),
    tier: tierOf(`${where}: tier`, limiter, given.tier),
    delayMs: delayMsOf(`${where}: delay`, limiter, given.delay, observe, takesPermits),
    skip: given.skip,
    statusCode: statusOf('statusCode', 429),
    storeFailureStatusCode: statusOf('storeFailureStatusCode', 503),
    problemDetails: booleanOf(`${where}: problemDetails`, given.problemDetails, false),
    hashLongKeys: booleanOf(`${where}: hashLongKeys`, given.hashLongKeys, true),
    message: messageOf(`${where}: message`, given.message),
    headers: headers === false ? false : headerFormsOf(`${where}: headers`, headers, ', or false'),
    requestProperty: propertyOf(`${where}: requestProperty`, given.requestProperty ?? 'rateLimit'),
    onRefused: given.onRefused,
    onInvalidInput: given.onInvalidInput,
    refundWhen: refundWhenOf(`${where}: refundWhen`, given.refundWhen),
    observe,
  } as CheckedOptions<R>
}

function limiterOf(where: string, value: unknown, takesPermits: boolean): MiddlewareLimiter<unknown> {
  const { take, refund, policies } = (value ?? {}) as Partial<MiddlewareLimiter>
  if (typeof take !== 'function' || typeof refund !== 'function' || typeof policies !== 'object') {
    const advice = isPolicyLike(value) ? 'new RateLimiter(policy)' : undefined
    throw invalid('INVALID_OPTION', `${where}: limiter`, 'must be a RateLimiter', value, advice)
  }
  if (!takesPermits && Object.values(policies ?? {}).some(({ algorithm }) => algorithm === 'concurrency')) {
    const rule = 'must have no concurrency policy: requests take units, and no permits'
    throw new TollgateError('INVALID_OPTION', `${where}: limiter ${rule}; call acquire in the handler`)
  }
  return value as MiddlewareLimiter<unknown>
}

/** The option that fits a value which was passed in place of the options: a limiter or a policy. */
function optionFor(value: unknown): string | undefined {
  const { take } = (value ?? {}) as { readonly take?: unknown }
  return isPolicyLike(value) ? 'limiter: new RateLimiter(policy)' : typeof take === 'function' ? 'limiter' : undefined
}

/** Throws if requests have no default key. */
function checkAddressed(where: string, { policies }: MiddlewareLimiter<unknown>, hasAddress: boolean): void {
  if (!hasAddress) {
    throw new TollgateError('INVALID_OPTION', `${where}: key must be given: a Request has no client address`)
  }
  if (Object.values(policies).some(({ per }) => per !== undefined)) {
    throw new TollgateError('INVALID_OPTION', `${where}: key must be given: the limiter's keys have several parts`)
  }
}

function booleanOf(option: string, value: unknown, fallback: boolean): boolean {
  return value === undefined ? fallback : trueOrFalse('INVALID_OPTION', option, value)
}

function metersOf({ policies }: MiddlewareLimiter<unknown>): MeterSet | undefined {
  return meterSetOf(Object.entries(policies))
}

function costIn(option: string, limiter: MiddlewareLimiter<unknown>, value: unknown): unknown {
  if (typeof value === 'function') {
    return value
  }
  const meters = metersOf(limiter)
  if (meters === undefined && value === undefined) {
    return value
  }
  try {
    if (meters === undefined) {
      return plainUnitsOf(option, value)
    }
    costsOf(meters, value, option)
    return value
  } catch (error) {
    throw new TollgateError('INVALID_OPTION', (error as Error).message)
  }
}

/** Checks the tier. One that a function returns is checked by the limiter. */
function tierOf(option: string, { tiers = {} }: MiddlewareLimiter<unknown>, value: unknown): unknown {
  const names = Object.keys(tiers)
  if (names.length === 0) {
    if (value !== undefined) {
      throw new TollgateError('INVALID_OPTION', `${option} cannot be given: the limiter has no tiers`)
    }
  } else if (typeof value !== 'function' && !names.includes(value as string)) {
    const rule = `must be one of ${names.map(shown).join(', ')}, or a function that returns one`
    throw invalid('INVALID_OPTION', option, rule, value)
  }
  return value
}

/** Checks that the limiter can wait. */
function delayMsOf(
  option: string,
  { policies, wait }: MiddlewareLimiter<unknown>,
  value: unknown,
  isShadow: boolean,
  takesPermits: boolean,
): number | undefined {
  if (value === undefined) {
    return undefined
  }
  const delayMs = wholeMillis(option, value, 1, MAX_WAIT_MS)
  checkBareNumber('INVALID_OPTION', option, value)
  // `acquire` waits under any policy.
  const other = takesPermits ? undefined : Object.entries(policies).find(([, policy]) => !isRate(policy))
  if (other !== undefined) {
    const [name, { algorithm }] = other
    const rule = 'needs a limiter whose policies are gcra(), leakyBucket() or tokenBucket() with continuous refill'
    throw new TollgateError('INVALID_OPTION', `${option} ${rule}, but policies.${name} is ${algorithm}`)
  }
  if (typeof wait !== 'function') {
    throw new TollgateError('INVALID_OPTION', `${option} needs a limiter that has the method wait`)
  }
  if (isShadow) {
    throw new TollgateError('INVALID_OPTION', `${option} cannot be given with observe: shadow mode delays no request`)
  }
  return delayMs
}

function messageOf(option: string, value: unknown): unknown {
  const isObject = typeof value === 'object' && value !== null
  if (value === undefined || typeof value === 'string' || typeof value === 'function' || (isObject && hasJson(value))) {
    return value
  }
  throw invalid('INVALID_OPTION', option, 'must be a string, an object or a function', value)
}

/** Whether JSON shows what an object contains. Of a promise, a `Map` or an `Error` it shows `{}`. */
function hasJson(value: object): boolean {
  const { toJSON } = value as { readonly toJSON?: unknown }
  return isPlain(value) || Array.isArray(value) || typeof toJSON === 'function' || Object.keys(value).length > 0
}

function propertyOf(option: string, value: unknown): string {
  if (typeof value === 'string' && value !== '') {
    return value
  }
  throw invalid('INVALID_OPTION', option, 'must be the name of a property', value)
}

function refundWhenOf(option: string, value: unknown): unknown {
  if (value === undefined || value === 'failed' || value === 'successful' || typeof value === 'function') {
    return value
  }
  throw invalid('INVALID_OPTION', option, "must be 'failed', 'successful' or a function", value)
}
