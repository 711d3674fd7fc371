/// <reference lib="esnext.disposable" preserve="true" />
import type * as native from '../../../generated/native.js'
import { TollgateError } from '../../api/error.js'
import { wholeMillis } from '../../input/duration.js'
import { checkCount, invalid, wholeNumber } from '../../input/options.js'
import type { PolicySet } from '../../policies/policy-set.js'
import { compilePolicySet, openedVariant } from '../compile-policies.js'
import { Store } from '../limiter-backend.js'
import { checkSharedPrefix } from '../open-prefixes.js'
import { warnOfOtherNumbers } from '../other-numbers.js'
import { type Batcher, CallQueue } from './batching/batcher.js'
import { callWeightOf } from './batching/call-weight.js'
import { RedisBackend } from './batching/redis-backend.js'

/** The longest timeout: a day, longer than any sensible deadline. */
const MAX_TIMEOUT_MS = 86_400_000

const MAX_PENDING = 1_000_000

/** A store over Redis, on any transport: opens limiters by prefix, and batches their calls. */
export abstract class BatchedStore extends Store {
  /** @internal */
  abstract readonly batcher: Batcher
  /** The open prefixes, with the number of limiters of each, and the policies of the first one. */
  readonly #prefixes = new Map<
    string,
    { readonly queue: CallQueue; readonly policySet: PolicySet; readonly numbers: string; users: number }
  >()
  #closed = false

  /** @throws {TollgateError} `INVALID_OPTION` if open policies differ in more than numbers. @internal */
  protected abstract openCallBuffer(prefix: string, policySet: PolicySet): native.NativeRedisLimiter

  /** Rejects further calls with `CLOSED`, and waits for pending calls. May be called again. */
  async close(): Promise<void> {
    this.#closed = true
    await this.batcher.close()
  }

  /** {@link close}, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** @internal */
  override open(prefix: string | undefined, policySet: PolicySet, tag: string | undefined): RedisBackend {
    if (prefix === undefined) {
      throw new TollgateError('INVALID_OPTION', 'prefix is required with Redis: it separates the keys of limiters')
    }
    if (this.#closed) {
      throw new TollgateError('CLOSED', 'the store has been closed')
    }
    checkSharedPrefix(prefix, this.#prefixes.get(prefix)?.policySet, policySet)
    const callBuffer = this.openCallBuffer(prefix, policySet)
    const { batcher, engine } = this
    const { policyRegistry: registry } = batcher
    const numbers = JSON.stringify([policySet.policies, policySet.ban])
    const queue = () => new CallQueue(callBuffer, callWeightOf(policySet))
    const shared = this.#prefixes.get(prefix) ?? { queue: queue(), policySet, users: 0, numbers }
    this.#prefixes.set(prefix, shared)
    registry?.setPolicies(prefix, policySet, 0)
    // The calls of all limiters of the prefix are in one buffer, each with its own numbers.
    const { callBuffer: first } = shared.queue
    const isFirst = shared.numbers === numbers
    const own = isFirst ? first : openedVariant(() => first.openVariant(compilePolicySet(engine, policySet), 0, true))
    warnOfOtherNumbers(isFirst ? null : prefix)
    const use = (used: native.NativeRedisLimiter) => {
      shared.users++
      return () => {
        used.close()
        shared.users--
        if (shared.users === 0) {
          this.#prefixes.delete(prefix)
          registry?.remove(prefix)
        }
      }
    }
    const context = { batcher, prefix, engine, queue: shared.queue, use }
    const release = use(callBuffer)
    const releaseAll = () => {
      if (!isFirst) {
        own.close()
      }
      release()
    }
    return new RedisBackend(context, own, policySet, tag, releaseAll)
  }
}

export function checkedTimeout(name: string, milliseconds: unknown): number {
  return wholeMillis(name, milliseconds, 1, MAX_TIMEOUT_MS)
}

export function checkedMaxPending(maxPending: unknown = 10_000): number {
  return wholeNumber('INVALID_OPTION', 'maxPending', maxPending, 1, MAX_PENDING)
}

/** Checks the arguments of a store's `on`. @throws {TollgateError} `INVALID_OPTION` */
export function checkListener(args: readonly unknown[], events: readonly string[]): void {
  const [event, listener] = args
  checkCount(args.length, 2, 'on takes an event and a listener')
  if (!events.includes(event as string)) {
    throw invalid('INVALID_OPTION', 'event', `must be ${events.length > 1 ? 'one of ' : ''}${events.join(', ')}`, event)
  }
  if (typeof listener !== 'function') {
    throw invalid('INVALID_OPTION', 'listener', 'must be a function', listener)
  }
}
