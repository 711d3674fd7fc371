import type * as native from '../../../../native.js'
import { RedisReader } from '../../../backends/addon.js'
import type { RedisStoreOptions } from '../../../backends/redis/options.js'
import { targetOf } from '../../../backends/redis/target.js'
import { translated } from '../../../input/options.js'
import { failedOutside } from '../../failure.js'

/** Longer than the engine waits for a server; then something is wrong with it. */
const LONGEST_MS = 60_000

/** The masters of what is read, and how many keys each has; -1 if it does not tell. */
export interface Masters {
  readonly names: readonly string[]
  readonly isCluster: boolean
  readonly sizes: readonly number[]
}

/** What waits for an answer. */
interface Waiting {
  readonly resolve: (read: native.RedisRead) => void
  readonly timer: NodeJS.Timeout
}

/** Reads what limiters keep in Redis, and writes nothing. One question is answered after the other. */
export class Reader {
  readonly #native: native.RedisReader
  readonly #waiting = new Map<number, Waiting>()
  #questions = 0

  /** @throws {TollgateError} `INVALID_OPTION` */
  constructor(options: RedisStoreOptions, timeoutMs: number) {
    const target = targetOf(options, timeoutMs, timeoutMs)
    this.#native = translated('INVALID_OPTION', 'Redis', () => {
      return new RedisReader(target, (question, read) => this.#told(question, read))
    })
  }

  /** Connects, and tells to what. */
  async masters(): Promise<Masters> {
    const { masters, isCluster, sizes } = await this.#asked((question) => this.#native.masters(question))
    return { names: masters, isCluster, sizes }
  }

  /** What is there of a caller's keys, under any algorithm; and the holds of its reservations. */
  find(wanted: native.RedisWanted): Promise<native.RedisRead> {
    return this.#asked((question) => this.#native.find(question, wanted))
  }

  /** A page of the keys of a prefix. */
  page(page: native.RedisPage): Promise<native.RedisRead> {
    return this.#asked((question) => this.#native.page(question, page))
  }

  close(): void {
    this.#native.close()
  }

  async #asked(ask: (question: number) => void): Promise<native.RedisRead> {
    const question = this.#questions++
    const read = await new Promise<native.RedisRead>((resolve, reject) => {
      // It also keeps the process alive, which the engine does not.
      const timer = setTimeout(() => {
        this.#waiting.delete(question)
        reject(failedOutside('Redis has not answered in time'))
      }, LONGEST_MS)
      this.#waiting.set(question, { resolve, timer })
      ask(question)
    })
    if (read.failed !== undefined) {
      throw failedOutside(`Redis cannot be read: ${read.failed}`)
    }
    return read
  }

  #told(question: number, read: native.RedisRead): void {
    const waiting = this.#waiting.get(question)
    this.#waiting.delete(question)
    clearTimeout(waiting?.timer)
    waiting?.resolve(read)
  }
}
