import { checkCount } from '../../input/options.js'
import { engine } from '../addon.js'
import { EmbeddedStore, type MemoryStoreOptions } from './embedded-store.js'

/**
 * Keeps the counts in this process's memory: N processes admit N times the limit. A limiter without a `store`
 * has its own. Limiters on one store share its `maxKeys`, each with its own `prefix`.
 * @example
 * const store = new MemoryStore({ maxKeys: 100_000 })
 * const reads = new RateLimiter(gcra({ limit: 100, period: '1s' }), { store, prefix: 'reads' })
 * const writes = new RateLimiter(gcra({ limit: 10, period: '1s' }), { store, prefix: 'writes' })
 */
export class MemoryStore extends EmbeddedStore {
  /** @throws {TollgateError} `INVALID_OPTION` */
  constructor(options?: MemoryStoreOptions) {
    checkCount(arguments.length, 1, 'MemoryStore takes an object of options', 'put all options in one object')
    super(engine, options)
  }
}
