import { EmbeddedStore, type MemoryStoreOptions } from '../backends/memory/embedded-store.js'
import { checkCount } from '../input/options.js'
import { engine } from './engine/engine.js'

/**
 * Keeps the counts in the engine's memory, as the `MemoryStore` of `tollgate` does, with these
 * differences:
 *
 * - The clock is `Date.now()`, unless `clock` is given.
 * - A `name` shares the store within one thread or isolate: each has its own engine.
 * - WebAssembly never returns memory to the system: memory that many keys needed once stays with
 *   the engine. The default `maxKeys` takes some 150 bytes a key, which may be more than a platform
 *   has.
 */
export class MemoryStore extends EmbeddedStore {
  /** @throws {TollgateError} `INVALID_OPTION` */
  constructor(options?: MemoryStoreOptions) {
    checkCount(arguments.length, 1, 'MemoryStore takes an object of options', 'put all options in one object')
    super(engine, options)
  }
}
