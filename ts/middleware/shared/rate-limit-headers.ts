import type { Decision } from '../../api/decision.js'
import { TollgateError } from '../../api/error.js'
import { checkCount, invalid, optionsOf, shown } from '../../input/options.js'
import type { Policy } from '../../policies/policy.js'
import { type HeaderForm, headerFormsOf } from './header-forms.js'
import { type HeaderWriter, headerWriterFor, writeRetryAfter } from './headers.js'

/**
 * The part of a limiter that describes its limits. Every `RateLimiter` has it.
 *
 * @example
 * const headersOf = (limiter: DescribedLimiter, decision: Decision) => rateLimitHeaders(limiter, decision)
 */
export interface DescribedLimiter<N extends string = string> {
  /** The policies, by the names of the limits. */
  readonly policies: { readonly [Name in N]: Policy }
  /** The name of its item in the headers, if its single limit has no name. */
  readonly prefix?: string | undefined
  /** The policies of each tier, if there are tiers. */
  readonly tiers?: { readonly [tier: string]: { readonly [Name in N]: Policy } }
}

/**
 * The options of {@link rateLimitHeaders}.
 *
 * @example
 * const options: RateLimitHeadersOptions = { headers: 'legacy' }
 * rateLimitHeaders(limiter, decision, options)
 */
export interface RateLimitHeadersOptions {
  /** The form of the headers, or several, as in the option `headers` of the middleware. Default: `'draft-8'`. */
  readonly headers?: HeaderForm | readonly HeaderForm[]
  /** The tier of the call. Required for a limiter with tiers; other limiters have none. */
  readonly tier?: string
}

/**
 * The rate limit headers of a decision, as the middleware writes them: for a handler that calls `take`, `wait`,
 * `reserve` or `acquire` itself. A refusal also has `Retry-After`, unless it can never succeed.
 *
 * The result is a plain object: for `res.set(headers)` in Express, `reply.headers(headers)` in Fastify,
 * `new Response(body, { headers })`, and `res.setHeaders(new Headers(headers))` in Node.js.
 *
 * @param limiter - The limiter that decided.
 * @param decision - Its decision; of a reservation or a permit its `decision`.
 * @returns Values by the names of headers; empty if a decision with `source: 'none'` allowed the call.
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * const decision = await limiter.take('user:42')
 * return new Response('hello', { headers: rateLimitHeaders(limiter, decision) })
 */
export function rateLimitHeaders<N extends string>(
  limiter: DescribedLimiter<N>,
  decision: Decision<N>,
  options: RateLimitHeadersOptions = {},
): { [name: string]: string } {
  checkCount(arguments.length, 3, 'rateLimitHeaders takes a limiter, a decision and an object of options')
  const given = optionsOf('INVALID_OPTION', 'rateLimitHeaders', options, ['headers', 'tier'])
  const forms = headerFormsOf('rateLimitHeaders: headers', given.headers ?? 'draft-8')
  const policies = policiesOf(limiter, given.tier)
  checkDecision(decision, policies)
  const headers: { [name: string]: string } = {}
  const set = (name: string, value: string) => {
    headers[name] = value
  }
  if (decision.source !== 'none') {
    writerFor(policies, limiter.prefix, forms).write(decision, set)
  }
  if (!decision.allowed) {
    writeRetryAfter(decision, set)
  }
  return headers
}

function policiesOf(limiter: unknown, tier: unknown): { readonly [name: string]: Policy } {
  const { policies, tiers = {} } = (limiter ?? {}) as Partial<DescribedLimiter>
  if (typeof policies !== 'object' || policies === null) {
    throw invalid('INVALID_OPTION', 'rateLimitHeaders: limiter', 'must be a RateLimiter', limiter)
  }
  const names = Object.keys(tiers)
  if (names.length === 0 && tier !== undefined) {
    throw new TollgateError('INVALID_OPTION', 'rateLimitHeaders: tier cannot be given: the limiter has no tiers')
  }
  if (names.length > 0 && !names.includes(tier as string)) {
    const rule = `must be one of ${names.map(shown).join(', ')}`
    throw invalid('INVALID_OPTION', 'rateLimitHeaders: tier', rule, tier)
  }
  return tiers[tier as string] ?? policies
}

function checkDecision(value: unknown, policies: { readonly [name: string]: Policy }): void {
  const { policies: numbers, decision } = (value ?? {}) as { readonly policies?: object; readonly decision?: unknown }
  const isOurs = typeof numbers === 'object' && Object.keys(policies).every((name) => Object.hasOwn(numbers, name))
  if (!isOurs) {
    const advice = decision === undefined ? undefined : 'pass its decision'
    throw invalid('INVALID_OPTION', 'rateLimitHeaders: decision', 'must be a decision of the limiter', value, advice)
  }
}

/** The writers of a limiter's policies, by prefix and forms. An update of the policies makes a new object. */
const writers = new WeakMap<object, Map<string, HeaderWriter>>()

function writerFor(
  policies: { readonly [name: string]: Policy },
  prefix: string | undefined,
  forms: readonly HeaderForm[],
): HeaderWriter {
  const own = writers.get(policies) ?? new Map<string, HeaderWriter>()
  writers.set(policies, own)
  const name = `${prefix ?? ''} ${forms}`
  const writer = own.get(name) ?? headerWriterFor(forms, policies, prefix)
  own.set(name, writer)
  return writer
}
