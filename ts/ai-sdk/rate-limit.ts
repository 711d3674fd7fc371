import type { NotAllowed } from '../api/decision.js'
import { TollgateError } from '../api/error.js'
import type { AbortSignalLike } from '../api/wait.js'
import { checkCount } from '../input/options.js'
import type { WaitingTime } from '../platform/waiting-time.js'
import { refusedCallError, undecidedCallError } from './call-error.js'
import { chargedStream } from './charged-stream.js'
import { type CheckedModelOptions, callerOf, modelOptionsOf } from './checked-options.js'
import { modelCostOf } from './cost.js'
import { ModelHold, metadataOf } from './model-hold.js'
import type { ModelCall, ModelCallParams, ModelRateLimitOptions } from './options.js'
import { estimatedTokens } from './tokens.js'

/** The middleware that `rateLimit` returns, for `wrapLanguageModel` of `ai` 6 and 7. */
export interface ModelMiddleware {
  /** Both versions accept it. */
  readonly specificationVersion: 'v3'
  /** Wraps a call without a stream. */
  wrapGenerate<R extends { readonly usage: unknown; readonly content: readonly unknown[] }>(call: {
    doGenerate: () => PromiseLike<R>
    params: ModelCallParams
    model: { readonly provider: string; readonly modelId: string }
  }): Promise<R>
  /** Wraps a call that streams its answer. */
  wrapStream<R extends { readonly stream: unknown }>(call: {
    doStream: () => PromiseLike<R>
    params: ModelCallParams
    model: { readonly provider: string; readonly modelId: string }
  }): Promise<R>
}

/** Longest time between two tries under `concurrency`: permits are released earlier than they expire. */
const PERMIT_POLL_MS = 250

/**
 * A middleware for language models of the AI SDK. Each call of the model reserves an estimate, and charges the usage
 * that the provider reports when the answer ends. What exceeds the estimate is charged, too, or owed.
 *
 * A refused call is not sent, and rejects with an error that the SDK takes for its `APICallError`: status 429 with the
 * time in its headers, which the SDK's retries wait for; 413 if the estimate never fits; 503 without a retry if the
 * limiter could not decide. Its `cause` is the decision, or the `TollgateError`.
 *
 * `providerMetadata.tollgate` of the result tells what was charged and what is owed.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * const limiter = new RateLimiter(gcra({ limit: 200_000, period: '1m', meter: 'tokens' }))
 * const model = wrapLanguageModel({ model: openai('gpt-5'), middleware: rateLimit({ limiter, key: 'account' }) })
 */
export function rateLimit<K = string, T extends string = never, C = number>(
  options: ModelRateLimitOptions<K, T, C>,
): ModelMiddleware {
  checkCount(arguments.length, 1, 'rateLimit takes an object of options')
  const checked = modelOptionsOf(options)
  return {
    specificationVersion: 'v3',
    async wrapGenerate({ doGenerate, params, model }) {
      const hold = await reserve(checked, callOf(params, model))
      const result = await sent(hold, doGenerate)
      for (const part of result.content) {
        hold.output.add(part as { readonly type: string })
      }
      const tollgate = metadataOf(await hold.finish(result.usage))
      const { providerMetadata } = result as { readonly providerMetadata?: object }
      return { ...result, providerMetadata: { ...providerMetadata, tollgate } }
    },
    async wrapStream({ doStream, params, model }) {
      const hold = await reserve(checked, callOf(params, model))
      const result = await sent(hold, doStream)
      hold.endWith(params.abortSignal)
      return { ...result, stream: chargedStream(result.stream as ReadableStream, hold) }
    },
  }
}

function callOf(params: ModelCallParams, { provider, modelId }: Omit<ModelCall, 'params'>): ModelCall {
  return { params, provider, modelId }
}

async function sent<R>(hold: ModelHold, send: () => PromiseLike<R>): Promise<R> {
  try {
    return await send()
  } catch (error) {
    await hold.fail(error)
    throw error
  }
}

/** Reserves the estimate of a call, and waits until it fits, for `maxWait` at most. */
async function reserve(options: CheckedModelOptions, call: ModelCall): Promise<ModelHold> {
  const { limiter, time, maxWaitMs, ttlMs, meters, costOf } = options
  const { abortSignal } = call.params
  const { key, tier } = await callerOf(options, call)
  const estimate = estimatedTokens(call, options.estimate, options.maxOutputTokens)
  const cost = modelCostOf(meters, costOf, estimate, call)
  const reserveOptions = { ttl: `${ttlMs}ms`, ...(tier !== undefined && { tier }) }
  const deadline = time.now() + maxWaitMs
  for (;;) {
    throwIfAborted(abortSignal)
    const reservation = await limiter.reserve(key, cost, reserveOptions).catch(throwUndecided)
    if (reservation.allowed) {
      const hold = new ModelHold(options, { call, key, estimate, reservation })
      if (abortSignal?.aborted) {
        await hold.cancel()
      }
      throwIfAborted(abortSignal)
      return hold
    }
    const decision = reservation.decision as NotAllowed
    const delayMs = delayUntilNext(options, decision, deadline - time.now())
    if (delayMs === undefined) {
      throw refusedCallError(decision)
    }
    await sleep(time, delayMs, abortSignal)
  }
}

/** The time until the next try; `undefined` if the call does not fit in time. */
function delayUntilNext(
  { limiter }: CheckedModelOptions,
  { retryAfterMs, status, policy }: NotAllowed,
  leftMs: number,
): number | undefined {
  // The time until a permit is released is not known.
  const isPermit = status === 'refused' && limiter.policies[policy]?.algorithm === 'concurrency'
  const neededMs = isPermit ? Math.min(retryAfterMs, PERMIT_POLL_MS) : retryAfterMs
  return neededMs === null || neededMs > leftMs ? undefined : Math.max(1, neededMs)
}

/** Errors of the store are no mistakes of the caller. */
function throwUndecided(error: unknown): never {
  const isMistake = TollgateError.is(error) && error.code.startsWith('INVALID_')
  throw TollgateError.is(error) && !isMistake ? undecidedCallError(error) : error
}

function throwIfAborted(signal: AbortSignalLike | undefined): void {
  if (signal?.aborted) {
    throw signal.reason
  }
}

function sleep(time: WaitingTime, millis: number, signal: AbortSignalLike | undefined): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      time.clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      resolve()
    }
    const timer = time.setTimeout(end, millis)
    signal?.addEventListener('abort', end)
  })
}
