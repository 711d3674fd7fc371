import type { Blocked, Decision, Impossible, Refused } from '../../api/decision.js'
import { TollgateError } from '../../api/error.js'
import { invalid, optionsOf, trueOrFalse, wholeNumber } from '../../input/options.js'
import type { Policy } from '../../policies/policy.js'

/** A value, or the promise of one. */
export type Awaitable<T> = T | PromiseLike<T>

/** What a middleware needs of a limiter: every `RateLimiter` has it. */
export interface MiddlewareLimiter<K = string, N extends string = string> {
  readonly policies: { readonly [Name in N]: Policy }
  /** Decides, and charges what it allows. */
  take(key: K, cost?: number): Promise<Decision<N>>
  /** Gives units of a decision back; resolves to how many. */
  refund(decision: Decision<N>, units?: number): Promise<number>
}

/** A decision that does not allow. */
export type NotAllowed<N extends string = string> = Refused<N> | Blocked<N> | Impossible<N>

/**
 * Which fields tell clients about their limits: those of draft 8 (and of 9 to 11) or of draft 6 of
 * draft-ietf-httpapi-ratelimit-headers, or the older `X-RateLimit-*`.
 */
export type HeaderForm = 'draft-8' | 'draft-6' | 'legacy'

/** What a refused client is told: a text, or an object that becomes JSON. A function, which has a `bind`, is none. */
export type Message =
  | string
  | (object & { readonly bind?: never })
  | { readonly bind?: never; readonly [name: string]: unknown }

/**
 * What `onInvalidInput` may answer. With a `key` or a `cost` the request is decided on, by these in place of its own;
 * otherwise it is answered.
 *
 * @typeParam K - The limiter's keys.
 */
export interface InvalidInputAnswer<K> {
  /** The key that the request counts for. */
  readonly key?: K
  /** The units that it costs. */
  readonly cost?: number
  /** The status of the answer. Default: 400. */
  readonly statusCode?: number
  /** Its body. Default: `'Bad Request'` */
  readonly message?: Message
}

/** How a request ended. */
export interface RequestEnd {
  /** The status of the response; where there is none because an error was thrown, 500. */
  readonly status: number
  /** Whether the client went away before it had the whole response. */
  readonly aborted: boolean
}

/**
 * Which requests get back what they took: `'failed'`, those whose status is 400 or more and those whose client
 * went away; `'successful'`, all others.
 */
export type RefundWhen<A extends readonly unknown[]> =
  | 'failed'
  | 'successful'
  | ((...args: [...request: A, end: RequestEnd]) => Awaitable<boolean>)

/**
 * The options that all frameworks have.
 *
 * Every function may be async, and is called with what its framework calls a request.
 *
 * @typeParam K - The limiter's keys.
 * @typeParam N - The names of its limits.
 * @typeParam A - What a framework passes of a request.
 * @typeParam R - What its responses are, if functions can return them.
 */
export interface RateLimitOptions<K, N extends string, A extends readonly unknown[], R = never> {
  /** Who decides. It is yours: you close it. */
  readonly limiter: MiddlewareLimiter<K, N>
  /** The units that a request costs: a whole number from 1. Default, also of a function that returns `undefined`: 1. */
  readonly cost?: number | ((...args: A) => Awaitable<number>)
  /** Whether a request is not to be counted at all. */
  readonly skip?: (...args: A) => Awaitable<boolean>
  /** The status of a refusal: a whole number from 400 to 599. Default: 429. */
  readonly statusCode?: number
  /** The body of a refusal. Default: `'Too many requests, please try again later.'` */
  readonly message?: Message | ((...args: [...request: A, decision: NotAllowed<N>]) => Awaitable<Message>)
  /**
   * Which fields responses have; `false` for none, not even `Retry-After`. Default: `'draft-8'`, and `false` in
   * shadow mode.
   */
  readonly headers?: HeaderForm | false
  /** Where the decision stands in the request, for what comes after. Default: `'rateLimit'`. */
  readonly requestProperty?: string
  /** Is told of each request that is refused, in shadow mode too, and is waited for. */
  readonly onRefused?: (...args: [...request: A, decision: NotAllowed<N>]) => Awaitable<void>
  /**
   * Is told of each request of which no key or cost can be made, and waited for. What it returns says what becomes of the
   * request: see {@link InvalidInputAnswer}. Default, also if it returns nothing: status 400, and a process warning for
   * the first such request if there is no `onInvalidInput`.
   *
   * Such a request is one whose key or cost breaks the limiter's rules, or for which `key`, `cost` or `skip` throws an
   * error of JavaScript's own (`TypeError`, `RangeError`, `SyntaxError`, `URIError`) without a status or a cause. Other
   * errors are thrown on purpose, and go to `onError`.
   */
  readonly onInvalidInput?: (
    error: unknown,
    ...request: A
  ) => Awaitable<InvalidInputAnswer<K> | R | undefined> | Awaitable<void>
  /**
   * Which requests get their units back when they have ended: see {@link RefundWhen}. Each gives back once.
   * Default: none.
   */
  readonly refundWhen?: RefundWhen<A>
  /**
   * Shadow mode: decides and counts, leaves its decision in the request, tells `onRefused`, and lets every request
   * pass, also where no decision can be made. Default: `false`.
   */
  readonly observe?: boolean
}

/** Makes the key of a request. */
export type KeyFunction<K, A extends readonly unknown[]> = (...args: A) => Awaitable<K>

/**
 * `key`, where it has a default: the client's address. A limiter whose keys have parts needs it all the same.
 *
 * The limiter alone says what its keys are: `K` is not inferred from what the function returns.
 */
export type KeyOrAddress<K, A extends readonly unknown[]> = [K] extends [string]
  ? {
      /** Who a request counts for. Default: `ipKey` of the client's address, as the framework tells it. */
      readonly key?: KeyFunction<NoInfer<K>, A>
    }
  : KeyRequired<K, A>

/** `key`, where it has no default; as in {@link KeyOrAddress}, the limiter alone says what its keys are. */
export interface KeyRequired<K, A extends readonly unknown[]> {
  /** Who a request counts for. */
  readonly key: KeyFunction<NoInfer<K>, A>
}

/**
 * The options as the core has them. `R` is what a framework passes of a request.
 *
 * @hidden
 */
export interface CheckedOptions<R extends readonly unknown[]> {
  readonly limiter: MiddlewareLimiter<unknown>
  readonly key: KeyFunction<unknown, R> | undefined
  readonly cost: number | ((...args: R) => Awaitable<number>) | undefined
  readonly skip: ((...args: R) => Awaitable<boolean>) | undefined
  readonly statusCode: number
  readonly message: Message | ((...args: [...request: R, decision: NotAllowed]) => Awaitable<Message>)
  readonly headers: HeaderForm | false
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
  'skip',
  'handler',
  'statusCode',
  'message',
  'headers',
  'requestProperty',
  'onRefused',
  'onInvalidInput',
  'onError',
  'refundWhen',
  'observe',
] as const

const FORMS: readonly unknown[] = ['draft-8', 'draft-6', 'legacy', false] satisfies (HeaderForm | false)[]

const DEFAULT_MESSAGE = 'Too many requests, please try again later.'

/**
 * Takes a value as a middleware's options.
 *
 * @param where - The middleware's function, for the message.
 * @param hasAddress - Whether the framework knows the client's address, which then is the default key.
 * @throws {TollgateError} `INVALID_OPTION`
 */
export function checkedOptions<R extends readonly unknown[]>(
  where: string,
  value: unknown,
  hasAddress: boolean,
): CheckedOptions<R> {
  const option = optionFor(value)
  if (option !== undefined) {
    throw new TollgateError('INVALID_OPTION', `${where} takes an object of options: ${where}({ ${option} })`)
  }
  const given = optionsOf('INVALID_OPTION', where, value, NAMES)
  const limiter = limiterOf(where, given.limiter)
  for (const name of ['key', 'skip', 'handler', 'onRefused', 'onInvalidInput', 'onError'] as const) {
    functionOf(`${where}: ${name}`, given[name])
  }
  if (given.key === undefined) {
    checkAddressed(where, limiter, hasAddress)
  }
  const observe = given.observe === undefined ? false : yesOrNo(`${where}: observe`, given.observe)
  return {
    limiter,
    key: given.key,
    cost: costOf(`${where}: cost`, given.cost),
    skip: given.skip,
    statusCode: wholeNumber('INVALID_OPTION', `${where}: statusCode`, given.statusCode ?? 429, 400, 599),
    message: messageOf(`${where}: message`, given.message),
    headers: headersOf(`${where}: headers`, given.headers ?? (observe ? false : 'draft-8')),
    requestProperty: propertyOf(`${where}: requestProperty`, given.requestProperty ?? 'rateLimit'),
    onRefused: given.onRefused,
    onInvalidInput: given.onInvalidInput,
    refundWhen: refundWhenOf(`${where}: refundWhen`, given.refundWhen),
    observe,
  } as CheckedOptions<R>
}

function limiterOf(where: string, value: unknown): MiddlewareLimiter<unknown> {
  const { take, refund, policies } = (value ?? {}) as Partial<MiddlewareLimiter>
  if (typeof take !== 'function' || typeof refund !== 'function' || typeof policies !== 'object') {
    const advice = isPolicyLike(value) ? 'new RateLimiter(policy)' : undefined
    throw invalid('INVALID_OPTION', `${where}: limiter`, 'must be a RateLimiter', value, advice)
  }
  return value as MiddlewareLimiter<unknown>
}

/** How a limiter or a policy that was given in place of options becomes one. */
function optionFor(value: unknown): string | undefined {
  const { take } = (value ?? {}) as { readonly take?: unknown }
  return isPolicyLike(value) ? 'limiter: new RateLimiter(policy)' : typeof take === 'function' ? 'limiter' : undefined
}

function isPolicyLike(value: unknown): boolean {
  return typeof (value as { readonly algorithm?: unknown } | null | undefined)?.algorithm === 'string'
}

/** Throws if requests have no key by themselves. */
function checkAddressed(where: string, { policies }: MiddlewareLimiter<unknown>, hasAddress: boolean): void {
  if (!hasAddress) {
    throw new TollgateError('INVALID_OPTION', `${where}: key must be given: a Request tells no client address`)
  }
  if (Object.values(policies).some(({ per }) => per !== undefined)) {
    throw new TollgateError('INVALID_OPTION', `${where}: key must be given: the limiter's keys have several parts`)
  }
}

function functionOf(option: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'function') {
    throw invalid('INVALID_OPTION', option, 'must be a function', value)
  }
}

function yesOrNo(option: string, value: unknown): boolean {
  return trueOrFalse('INVALID_OPTION', option, value)
}

function costOf(option: string, value: unknown): unknown {
  return value === undefined || typeof value === 'function' ? value : wholeNumber('INVALID_OPTION', option, value)
}

function messageOf(option: string, value: unknown = DEFAULT_MESSAGE): unknown {
  if (typeof value === 'string' || typeof value === 'function' || (typeof value === 'object' && value !== null)) {
    return value
  }
  throw invalid('INVALID_OPTION', option, 'must be a text, an object or a function', value)
}

function headersOf(option: string, value: unknown): HeaderForm | false {
  if (FORMS.includes(value)) {
    return value as HeaderForm | false
  }
  throw invalid('INVALID_OPTION', option, "must be 'draft-8', 'draft-6', 'legacy' or false", value)
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
