import { Store } from '../backends/limiter-backend.js'
import { tagOf } from '../input/keys.js'
import { checkCount, invalid, optionsOf, prefixOf, trueOrFalse } from '../input/options.js'
import { suggestionFor } from '../input/suggestion.js'
import { Warnings } from '../platform/warning.js'
import { isPolicyLike } from '../policies/policy.js'
import type { BanRule } from '../policies/policy-set.js'
import { banRuleOf } from './ban.js'
import { TollgateError } from './error.js'

/** The checked options of a limiter, but for `onStoreFailure` and `local`, which depend on the policies. */
export interface LimiterOptions {
  /** A store, or its URL. */
  readonly store: Store | string | undefined
  readonly prefix: string | undefined
  readonly tag: string | undefined
  readonly onStoreFailure: unknown
  readonly local: unknown
  readonly takesOver: boolean
  readonly ban: BanRule | undefined
}

const warnings = new Warnings()

/** For options that only Redis needs: probably a variable with the address of Redis is not set. */
const UNDEFINED_STORE =
  'store is undefined, so each process counts alone and admits the whole limit: ' +
  'give a RedisStore or its URL, or new MemoryStore() if that is meant'

/** Throws if the constructor has more arguments than a policy and options. */
export function checkLimiterCount(argumentCount: number): void {
  const rule = 'RateLimiter takes a policy, or policies by name, and an object of options'
  checkCount(
    argumentCount,
    2,
    rule,
    'write new RateLimiter(policy, { store, prefix }), or new RateLimiter({ a: policy, b: policy })',
  )
}

export function limiterOptionsOf(value: unknown): LimiterOptions {
  if (isPolicyLike(value)) {
    const rule = 'takes an object of options after its policy; several policies are one object by name'
    throw new TollgateError('INVALID_OPTION', `RateLimiter ${rule}`)
  }
  const names = ['store', 'prefix', 'tag', 'onStoreFailure', 'local', 'takeOver', 'ban', 'blockFor'] as const
  const given = optionsOf('INVALID_OPTION', 'RateLimiter', value ?? {}, names, adviceOnName)
  const { store, prefix, tag, onStoreFailure, local, takeOver = false, ban, blockFor } = given
  warnOfUndefinedStore(given)
  if (store !== undefined && typeof store !== 'string' && !(store instanceof Store)) {
    const rule = 'must be a MemoryStore, a RedisStore or a Redis URL'
    throw invalid('INVALID_OPTION', 'store', rule, store, adviceOnStore(store))
  }
  return {
    store,
    prefix: prefix === undefined ? undefined : prefixOf(prefix),
    tag: tagOf(tag),
    onStoreFailure,
    local,
    takesOver: trueOrFalse('INVALID_OPTION', 'takeOver', takeOver),
    ban: banRuleOf(ban, blockFor),
  }
}

/** Warns if `store` is given as `undefined` beside an option that only Redis needs. */
export function warnOfUndefinedStore(given: { readonly [option: string]: unknown }): void {
  const { store, prefix, onStoreFailure } = given
  if ('store' in given && store === undefined && (prefix !== undefined || onStoreFailure !== undefined)) {
    warnings.once('TOLLGATE_UNDEFINED_STORE', UNDEFINED_STORE)
  }
}

/** Whether a value is a Redis client of another package, or looks like one. */
export function isClient(value: unknown): boolean {
  const { call, sendCommand, evalsha } = (value ?? {}) as { readonly [method: string]: unknown }
  return [call, sendCommand, evalsha].some((method) => typeof method === 'function')
}

/** Tells how to use a Redis client of another package, for messages. */
export const CLIENT_ADVICE = "'tollgate/wasm' accepts a client: RedisStore.from(client)"

/** Tells where a number of a policy, or a key, belongs. */
function adviceOnName(name: string): string | undefined {
  const meant = suggestionFor(name, ['limit', 'period', 'burst', 'key'])
  return meant === undefined
    ? undefined
    : meant === 'key'
      ? 'the key is an argument of take(key)'
      : 'its numbers belong to its policy: new RateLimiter(gcra({ limit, period }))'
}

function adviceOnStore(store: unknown): string | undefined {
  if (typeof store === 'function') {
    return store.prototype instanceof Store ? `give it a new ${store.name}(…)` : undefined
  }
  return isClient(store) ? `new RedisStore(url) connects by itself; ${CLIENT_ADVICE}` : undefined
}
