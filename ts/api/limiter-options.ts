import { Store } from '../backends/limiter-backend.js'
import { tagOf } from '../input/keys.js'
import { checkCount, invalid, nameOf, optionsOf } from '../input/options.js'
import { isPolicyLike } from '../policies/policy.js'
import { TollgateError } from './error.js'

/** The options of a limiter, checked; but for `onStoreFailure`, which depends on its policies. */
export interface LimiterOptions {
  /** A store, or its URL. */
  readonly store: Store | string | undefined
  readonly prefix: string | undefined
  readonly tag: string | undefined
  readonly onStoreFailure: unknown
}

/** Throws if a limiter is made of more than a policy and options. */
export function checkLimiterCount(given: number): void {
  const rule = 'RateLimiter takes a policy, or policies by name, and an object of options'
  checkCount(
    given,
    2,
    rule,
    'write new RateLimiter(policy, { store, prefix }), or new RateLimiter({ a: policy, b: policy })',
  )
}

/** Takes a value as the options of a limiter. */
export function limiterOptionsOf(value: unknown): LimiterOptions {
  if (isPolicyLike(value)) {
    const rule = 'takes an object of options after its policy: several policies are an object of them by name'
    throw new TollgateError('INVALID_OPTION', `RateLimiter ${rule}`)
  }
  const names = ['store', 'prefix', 'tag', 'onStoreFailure'] as const
  const { store, prefix, tag, onStoreFailure } = optionsOf('INVALID_OPTION', 'RateLimiter', value ?? {}, names)
  if (store !== undefined && typeof store !== 'string' && !(store instanceof Store)) {
    const rule = 'must be a MemoryStore, a RedisStore or a Redis URL'
    throw invalid('INVALID_OPTION', 'store', rule, store, adviceOnStore(store))
  }
  return {
    store,
    prefix: prefix === undefined ? undefined : nameOf('prefix', prefix),
    tag: tagOf(tag),
    onStoreFailure,
  }
}

/** Whether a value is a client of another package, or is made like one. */
export function isClient(value: unknown): boolean {
  const { call, sendCommand, evalsha } = (value ?? {}) as { readonly [method: string]: unknown }
  return [call, sendCommand, evalsha].some((method) => typeof method === 'function')
}

/** How a client of another package is taken. */
export const CLIENT_ADVICE = "'tollgate/wasm' takes a client, by RedisStore.from(client)"

function adviceOnStore(store: unknown): string | undefined {
  if (typeof store === 'function') {
    return store.prototype instanceof Store ? `give it a new ${store.name}(…)` : undefined
  }
  return isClient(store) ? CLIENT_ADVICE : undefined
}
