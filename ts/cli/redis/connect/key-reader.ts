import type * as native from '../../../../generated/native.js'
import { NativeInspector } from '../../../backends/addon.js'
import type { RedisStoreOptions } from '../../../backends/redis/options.js'
import { targetOf } from '../../../backends/redis/target.js'
import { translated } from '../../../input/options.js'
import { environmentError } from '../../failure.js'

/** Longer than the engine's own timeout, for an engine that is stuck. */
const MAX_READ_MS = 60_000

/** The masters of a server or a cluster. `sizes` is the number of keys of each, or -1 if it is unknown. */
export interface MasterNodes {
  readonly names: readonly string[]
  readonly isCluster: boolean
  readonly sizes: readonly number[]
}

/** Reads limiters' keys from Redis. It never writes, and it runs one read at a time. */
export class RedisKeyReader {
  readonly #native: native.NativeInspector
  /** The reads that wait for their answers, by their ids. */
  readonly #pending = new Map<number, { resolve(read: native.NativeInspectorReply): void; timer: NodeJS.Timeout }>()
  #nextId = 0

  constructor(options: RedisStoreOptions, timeoutMs: number) {
    const target = targetOf(options, timeoutMs, timeoutMs)
    this.#native = translated('INVALID_OPTION', 'Redis', () => {
      return new NativeInspector(target, (id, read) => this.#onAnswer(id, read))
    })
  }

  async masters(): Promise<MasterNodes> {
    const { masters, isCluster, sizes } = await this.#read((id) => this.#native.masters(id))
    return { names: masters, isCluster, sizes }
  }

  /** Reads a caller's keys under all algorithms, and its reservations. */
  find(query: native.NativeKeyQuery): Promise<native.NativeInspectorReply> {
    return this.#read((id) => this.#native.find(id, query))
  }

  page(page: native.NativePageQuery): Promise<native.NativeInspectorReply> {
    return this.#read((id) => this.#native.page(id, page))
  }

  close(): void {
    this.#native.close()
  }

  async #read(ask: (id: number) => void): Promise<native.NativeInspectorReply> {
    const id = this.#nextId++
    const read = await new Promise<native.NativeInspectorReply>((resolve, reject) => {
      // The timer also keeps the process alive, which the engine does not.
      const timer = setTimeout(() => {
        this.#pending.delete(id)
        reject(environmentError('Redis has not answered in time'))
      }, MAX_READ_MS)
      this.#pending.set(id, { resolve, timer })
      ask(id)
    })
    if (read.failed !== undefined) {
      throw environmentError(`Redis cannot be read: ${read.failed}`)
    }
    return read
  }

  #onAnswer(id: number, read: native.NativeInspectorReply): void {
    const pending = this.#pending.get(id)
    this.#pending.delete(id)
    clearTimeout(pending?.timer)
    pending?.resolve(read)
  }
}
