import type * as native from '../../native.js'
import { ANSWER_LENGTH, failureOf } from '../answer.js'
import type { Decision } from '../decision.js'
import { TollgateError } from '../error.js'
import type { Answers, Ledger } from '../store.js'
import { Asker, type RedisAnswers, resultAt } from './answer.js'
import type { Batcher, Queue } from './batcher.js'

/** What a ledger needs of its store. */
export interface RedisHome {
  readonly native: native.RedisStore
  readonly batcher: Batcher
  readonly timeoutMs: number
}

/** A limiter's keys in Redis. */
export class RedisLedger implements Ledger {
  readonly isSync = false
  readonly #home: RedisHome
  readonly #queue: Queue
  readonly #asker: Asker
  readonly #answer = new Float64Array(ANSWER_LENGTH)
  readonly #note: (key: string, cost: number) => void
  readonly #release: () => void

  /**
   * @param queue - Where the calls wait, with those of other limiters of the same prefix.
   * @param release - Called once nobody waits any more.
   */
  constructor(home: RedisHome, queue: Queue, names: readonly string[] | undefined, release: () => void) {
    this.#home = home
    this.#queue = queue
    this.#asker = new Asker(names)
    this.#note = queue.ledger.bindNote(this.#answer)
    this.#release = release
  }

  take(key: string, cost: number): Promise<Decision> {
    const { batcher } = this.#home
    batcher.checkRoom()
    this.#note(key, cost)
    const code = this.#answer[0] as number
    if (code !== 0) {
      throw failureOf(code, key)
    }
    return batcher.noted(this.#queue, this.#asker)
  }

  async takeMany(keys: readonly string[], costs: readonly number[]): Promise<Answers> {
    const calls = keys.map(async (key, index) => this.take(key, costs[index] as number))
    const results = await Promise.allSettled(calls)
    return results.map((result) => (result.status === 'fulfilled' ? result.value : (result.reason as TollgateError)))
  }

  async peek(key: string, cost: number): Promise<Decision> {
    const { native, batcher, timeoutMs } = this.#home
    const peek = () => answered(native.peek(this.#queue.ledger, key, cost, timeoutMs), key)
    const result = resultAt(await batcher.alone(this.#asker, peek), 0, this.#asker)
    if (result instanceof TollgateError) {
      throw result
    }
    return result
  }

  async reset(key: string): Promise<void> {
    const { native, batcher, timeoutMs } = this.#home
    const reset = () => answered(native.reset(this.#queue.ledger, key, timeoutMs), key)
    const answers = await batcher.alone(this.#asker, reset)
    const failed = (answers.answers[0] as number) < 0
    const result = failed ? resultAt(answers, 0, this.#asker) : undefined
    if (result instanceof TollgateError) {
      throw result
    }
  }

  async ready(): Promise<void> {
    await this.peek('ready', 0)
  }

  async close(): Promise<void> {
    await this.#asker.pending.idle()
    this.#release()
  }
}

function answered(asked: number | Promise<RedisAnswers>, key: unknown): Promise<RedisAnswers> {
  if (typeof asked === 'number') {
    throw failureOf(asked, key)
  }
  return asked
}
