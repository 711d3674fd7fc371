import type * as native from '../../../../generated/native.js'
import type { Decision } from '../../../api/decision.js'
import { DecisionOrigin } from '../../../api/decision-metadata.js'
import { Keys } from '../../../input/keys.js'
import type { PolicySet } from '../../../policies/policy-set.js'
import { compileOverrides, compilePolicySet, openedVariant } from '../../compile-policies.js'
import type { Engine } from '../../engine.js'
import { type LimiterBackend, type TakeManyResults, takeEach, type VariantIndex } from '../../limiter-backend.js'
import { responseLengthOf, shapeOf } from '../../multi-policy.js'
import {
  codeOf,
  type EngineOperation,
  numbersOf,
  type Operation,
  type OperationResult,
  type ScheduledReservation,
} from '../../operation.js'
import { errorOfCode } from '../../response.js'
import { commonCost, type Units } from '../../units.js'
import type { Batcher, CallQueue } from './batcher.js'
import { InFlightCounter } from './in-flight.js'
import { OperationDecoder, type ResponseDecoder, ScheduledReservationDecoder, TakeDecoder } from './response-decoder.js'

export interface RedisBackendContext {
  readonly batcher: Batcher
  readonly prefix: string
  readonly engine: Engine
  readonly queue: CallQueue
  /** Keeps the prefix open until the returned function is called, which closes the call buffer. */
  readonly use: (callBuffer: native.NativeRedisLimiter) => () => void
}

export class RedisBackend implements LimiterBackend {
  readonly isSync = false
  readonly origin: DecisionOrigin
  readonly policySet: PolicySet
  readonly #context: RedisBackendContext
  readonly #queue: CallQueue
  readonly #callBuffer: native.NativeRedisLimiter
  readonly #dimensionCount: number
  readonly #inFlight = new InFlightCounter()
  readonly #takeDecoder: TakeDecoder
  readonly #operationDecoder: OperationDecoder
  readonly #scheduleDecoder: ScheduledReservationDecoder
  readonly #response: Float64Array
  readonly #enqueueTake: (key: string, cost: number) => void
  readonly #enqueueByPolicy: (key: string, count: number) => void
  readonly #tag: string | undefined
  readonly #release: () => void
  #isUsed = false

  /** @param release - Called once no call is pending. */
  constructor(
    context: RedisBackendContext,
    callBuffer: native.NativeRedisLimiter,
    policySet: PolicySet,
    tag: string | undefined,
    release: () => void,
    origin = new DecisionOrigin(policySet.tier),
  ) {
    const { limits, policies } = policySet
    this.origin = origin
    this.policySet = policySet
    const names = limits.map(({ name }) => name)
    this.#context = context
    this.#queue = context.queue
    this.#callBuffer = callBuffer
    this.#dimensionCount = Math.max(...policies.map(({ dimension }) => dimension)) + 1
    this.#takeDecoder = new TakeDecoder(this.#inFlight, names, this.origin)
    this.#operationDecoder = new OperationDecoder(this.#inFlight, names)
    this.#scheduleDecoder = new ScheduledReservationDecoder(this.#inFlight, names, policies.length)
    this.#response = new Float64Array(responseLengthOf(limits.length))
    this.#enqueueTake = callBuffer.bindEnqueue(this.#response)
    this.#enqueueByPolicy = callBuffer.bindEnqueueByPolicy(this.#response)
    this.#tag = tag
    this.#release = release
  }

  get isDown(): boolean {
    return this.#context.batcher.isDown
  }

  take(key: string, cost: number): Promise<Decision> {
    if (this.#tag !== undefined) {
      return this.takeBy(new Keys([key], undefined), cost)
    }
    const { batcher } = this.#context
    const rejection = batcher.rejection()
    if (rejection !== undefined) {
      return rejection
    }
    if (!this.#isUsed) {
      this.#markUsed()
    }
    this.#enqueueTake(key, cost)
    const code = this.#response[0] as number
    if (code !== 0) {
      throw errorOfCode(code, key)
    }
    return batcher.enqueue(this.#queue, this.#takeDecoder, key, cost)
  }

  takeBy(keys: Keys, cost: Units): Promise<Decision> {
    const common = commonCost(cost)
    if (typeof common === 'number' || keys.keys.length > 1 || (keys.tag ?? this.#tag) !== undefined) {
      return this.#enqueue(keys, { kind: 'take', cost: common }, this.#takeDecoder, cost)
    }
    const { batcher } = this.#context
    const rejection = batcher.rejection()
    if (rejection !== undefined) {
      return rejection
    }
    this.#markUsed()
    for (let policy = 0; policy < common.length; policy++) {
      this.#response[policy] = common[policy] as number
    }
    const key = keys.keys[0] as string
    this.#enqueueByPolicy(key, common.length)
    const code = this.#response[0] as number
    if (code !== 0) {
      throw errorOfCode(code, key)
    }
    return batcher.enqueue(this.#queue, this.#takeDecoder, keys, cost)
  }

  takeMany(keys: readonly string[], costs: readonly number[]): Promise<TakeManyResults> {
    return takeEach(keys, costs, (key, cost) => this.take(key, cost))
  }

  // Not async, and neither are the other methods: calls that fail together then get their fallback answers in call
  // order, because a failure takes the same number of microtask turns for every operation.
  execute(keys: Keys, operation: Operation): Promise<OperationResult> {
    if (operation.kind === 'peek') {
      this.#markUsed()
      return this.#peek(keys, operation.cost)
    }
    return this.#enqueue(keys, operation, this.#decoderOf(operation))
  }

  #decoderOf(operation: Operation): OperationDecoder {
    const shape = shapeOf(operation, this.policySet.policies.length)
    return shape === undefined
      ? this.#operationDecoder
      : new OperationDecoder(this.#inFlight, this.#operationDecoder.names, shape)
  }

  schedule(keys: Keys, cost: Units, maxWaitUs: number): Promise<ScheduledReservation> {
    return this.#enqueue(keys, { kind: 'schedule', cost, maxWaitUs }, this.#scheduleDecoder)
  }

  openVariant(policySet: PolicySet, { index, replaces }: VariantIndex): RedisBackend {
    const policies = compilePolicySet(this.#context.engine, policySet)
    const callBuffer = openedVariant(() => this.#callBuffer.openVariant(policies, index, replaces))
    this.#context.batcher.policyRegistry?.setPolicies(this.#context.prefix, policySet, index)
    const release = this.#context.use(callBuffer)
    const origin = this.origin.ofTier(policySet.tier)
    return new RedisBackend(this.#context, callBuffer, policySet, this.#tag, release, origin)
  }

  async ready(takesOver: boolean): Promise<void> {
    await this.#peek(new Keys(new Array(this.#dimensionCount).fill('ready'), undefined), 0)
    const { batcher, prefix } = this.#context
    await batcher.health.whenKnown()
    if (!takesOver) {
      await batcher.policyRegistry?.check(prefix)
    }
  }

  async close(): Promise<void> {
    await this.#inFlight.whenIdle()
    this.#release()
  }

  /** Reports the first call, of any kind. `ready` is no call: it compares policies before any call. */
  #markUsed(): void {
    if (!this.#isUsed) {
      this.#isUsed = true
      this.#context.batcher.policyRegistry?.markUsed(this.#context.prefix)
    }
  }

  /** Writes an operation into the call buffer, and waits for its result. @throws {TollgateError} `INVALID_KEY` */
  #enqueue<T>(keys: Keys, operation: EngineOperation, decoder: ResponseDecoder<T>, cost: Units = 0): Promise<T> {
    const { batcher, engine } = this.#context
    const rejection = batcher.rejection()
    if (rejection !== undefined) {
      return rejection
    }
    this.#markUsed()
    const numbers = Float64Array.from(numbersOf(operation))
    const overrides = compileOverrides(engine, operation)
    const [tag, kind] = [keys.tag ?? this.#tag, codeOf(operation)]
    const code = this.#callBuffer.enqueue(keys.keys, tag, kind, numbers, overrides)
    if (code !== 0) {
      throw errorOfCode(code, keys.keys[0])
    }
    return batcher.enqueue(this.#queue, decoder, keys, cost)
  }

  /** Sends a peek in its own flush, because its script writes nothing. */
  #peek(keys: Keys, cost: Units): Promise<OperationResult> {
    const { batcher } = this.#context
    const units = typeof cost === 'number' ? cost : Float64Array.from(numbersOf({ kind: 'peek', cost }))
    return batcher.sendAlone(this.#operationDecoder, keys, (flush, timeoutMs) => {
      const code = batcher.native.peek(flush, this.#callBuffer, keys.keys, keys.tag ?? this.#tag, units, timeoutMs)
      if (code !== 0) {
        throw errorOfCode(code, keys.keys[0])
      }
    })
  }
}
