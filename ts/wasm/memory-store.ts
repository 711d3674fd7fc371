import { EmbeddedStore, type MemoryStoreOptions } from '../backends/memory/embedded-store.js'
import { checkCount } from '../input/options.js'
import { engine } from './engine/engine.js'

/**
 * Keeps the counts in the engine's memory: as the `MemoryStore` of `tollgate`, and with these differences.
 *
 * - The clock is `Date.now()`, unless one is given.
 * - A `name` shares the store within one thread, or one isolate: each has an engine of its own.
 * - WebAssembly gives memory back to nobody: what many keys have needed once stays with the engine. A platform may
 *   have less of it than the default `maxKeys` takes, some 150 bytes a key.
 */
export class MemoryStore extends EmbeddedStore {
  /** @throws {TollgateError} `INVALID_OPTION` */
  constructor(options?: MemoryStoreOptions) {
    checkCount(arguments.length, 1, 'MemoryStore takes an object of options', 'put all options in one object')
    super(engine, options)
  }
}
