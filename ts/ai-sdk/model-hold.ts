import { settleRepeatedly } from '../api/repeated-settlement.js'
import type { AbortSignalLike } from '../api/wait.js'
import { answerOf } from '../client/answer.js'
import type { PlatformTimer } from '../platform/waiting-time.js'
import { reasonOf } from '../platform/warning.js'
import { isOwnRefusal } from './call-error.js'
import type { CheckedModelOptions, ModelReservation } from './checked-options.js'
import { modelCostOf } from './cost.js'
import type { ModelCall, ModelCharge, TokenUsage, UnreportedUsage } from './options.js'
import { OutputCounter, reportedTokens } from './tokens.js'

type Held = Extract<ModelReservation, { readonly allowed: true }>

/** The pause after a refusal that names no time. */
const DEFAULT_PAUSE_MS = 1_000

/** The renewals of a reservation in its life: one may fail. */
const RENEWALS_PER_LIFE = 3

type CallEnding = Pick<ModelCharge, 'outcome' | 'isReported' | 'tokens'>

/** The reservation of a call of a model, which is settled once. Its methods do not reject. */
export class ModelHold {
  readonly output = new OutputCounter()
  readonly #options: CheckedModelOptions
  readonly #call: ModelCall
  readonly #key: unknown
  readonly #estimate: TokenUsage
  readonly #reservation: Held
  readonly #estimated: ModelCharge['estimated']
  #renewals: PlatformTimer | undefined
  #charge: Promise<ModelCharge> | undefined
  #unlink: () => void = () => {}
  /** Since when nobody has read from the stream; `undefined` while the model answers. */
  #idleSince: number | undefined

  constructor(
    options: CheckedModelOptions,
    { call, key, estimate, reservation }: { call: ModelCall; key: unknown; estimate: TokenUsage; reservation: Held },
  ) {
    this.#options = options
    this.#call = call
    this.#key = key
    this.#estimate = estimate
    this.#reservation = reservation
    this.#estimated = reservation.units
    const { time, ttlMs } = options
    this.#renewals = time.setInterval(() => void this.#renew(), Math.floor(ttlMs / RENEWALS_PER_LIFE))
    this.#renewals.unref?.()
  }

  /** A consumer that reads nothing for the life of the reservation lets it end. */
  setIdle(isIdle: boolean): void {
    this.#idleSince = isIdle ? this.#options.time.now() : undefined
  }

  /** Settles the call when the signal is aborted, also if nobody reads the stream any more. */
  endWith(signal: AbortSignalLike | undefined): void {
    const onAbort = () => void this.abort()
    signal?.addEventListener('abort', onAbort)
    this.#unlink = () => signal?.removeEventListener('abort', onAbort)
    if (signal?.aborted) {
      onAbort()
    }
  }

  /** Whether a provider has reported the usage of the call. */
  reports(usage: unknown): boolean {
    return reportedTokens(usage, this.#estimate) !== undefined
  }

  /** Charges the usage of a call that has ended. */
  finish(usage: unknown): Promise<ModelCharge> {
    const atLeast = this.#tokensBy('estimate') as TokenUsage
    const tokens = reportedTokens(usage, atLeast)
    return this.#settle({ outcome: 'finished', isReported: tokens !== undefined, tokens: tokens ?? atLeast })
  }

  abort(): Promise<ModelCharge> {
    const tokens = this.#tokensBy(this.#options.onAbort)
    return this.#settle({ outcome: 'aborted', isReported: false, tokens })
  }

  /** Settles a call that has failed, and pauses the key if the provider says so. */
  async fail(error: unknown): Promise<ModelCharge> {
    if (this.#call.params.abortSignal?.aborted === true || isAbort(error)) {
      return this.abort()
    }
    const { onAbort, onError } = this.#options
    const isUnsent = isOwnRefusal(error)
    const by = isUnsent ? 'nothing' : this.output.tokens > 0 ? onAbort : onError
    const charge = this.#settle({ outcome: 'failed', isReported: false, tokens: this.#tokensBy(by) })
    await Promise.all([charge, isUnsent ? undefined : this.#pause(error)])
    return charge
  }

  /** Gives all units back: the call was not sent. */
  cancel(): Promise<ModelCharge> {
    return this.#settle({ outcome: 'aborted', isReported: false, tokens: undefined })
  }

  #tokensBy(by: UnreportedUsage): TokenUsage | undefined {
    const { tokens } = this.output
    const { outputTokens } = this.#estimate
    return by === 'nothing'
      ? undefined
      : { ...this.#estimate, outputTokens: by === 'streamed' ? tokens : Math.max(tokens, outputTokens) }
  }

  #settle(ending: CallEnding): Promise<ModelCharge> {
    this.#charge ??= this.#settleOnce(ending)
    return this.#charge
  }

  async #settleOnce(ending: CallEnding): Promise<ModelCharge> {
    this.#endRenewals()
    this.#unlink()
    const { estimate } = this.#options
    if (typeof estimate === 'object' && ending.outcome === 'finished' && ending.isReported) {
      ignoringErrors(() => estimate.record(this.#call.modelId, ending.tokens?.outputTokens ?? 0))
    }
    return settleRepeatedly(
      this.#options.time,
      () => this.#send(ending),
      (charge) => this.#report(charge),
    )
  }

  async #send(ending: CallEnding): Promise<ModelCharge> {
    const shared = { call: this.#call, ...ending, estimated: this.#estimated }
    try {
      return { ...shared, settlement: await this.#commit(ending.tokens), error: undefined }
    } catch (error) {
      return { ...shared, settlement: undefined, error }
    }
  }

  #commit(tokens: TokenUsage | undefined): ReturnType<Held['cancel']> {
    const { meters, costOf } = this.#options
    return tokens === undefined
      ? this.#reservation.cancel()
      : this.#reservation.commit(modelCostOf(meters, costOf, tokens, this.#call) as never)
  }

  #report(charge: ModelCharge): void {
    const { onCharged, warnings } = this.#options
    const { error } = charge
    if (error !== undefined) {
      const message = `the usage of a model call could not be charged, only its estimate: ${reasonOf(error)}`
      warnings.once('TOLLGATE_USAGE_NOT_CHARGED', message)
    }
    ignoringErrors(() => onCharged?.(charge))
  }

  async #renew(): Promise<void> {
    const { time, ttlMs } = this.#options
    if (this.#idleSince !== undefined && time.now() - this.#idleSince >= ttlMs) {
      this.#endRenewals()
      return
    }
    // A renewal that fails is repeated by the next one.
    const renewal = await this.#reservation.renew().catch(() => undefined)
    if (renewal?.renewed === false) {
      this.#endRenewals()
    }
  }

  #endRenewals(): void {
    this.#options.time.clearInterval(this.#renewals)
    this.#renewals = undefined
  }

  /** Blocks the key for the time that the provider asks for, so that no process sends calls meanwhile. */
  async #pause(error: unknown): Promise<void> {
    const { limiter, pauses, time, warnings } = this.#options
    const { isRefusal, delayMs } = answerOf({ isError: true, error }, time.epochMs())
    if (!pauses || !isRefusal) {
      return
    }
    let reason = 'the store of the limiter is down'
    try {
      if ((await limiter.block(this.#key, `${delayMs ?? DEFAULT_PAUSE_MS}ms`)) !== false) {
        return
      }
    } catch (cause) {
      reason = reasonOf(cause)
    }
    const message = `a provider refuses calls, and the pause that it asks for could not be stored: ${reason}`
    warnings.once('TOLLGATE_PAUSE_NOT_STORED', message)
  }
}

/** Functions of the user, and errors of a provider, must not hide the answer of the model. */
function ignoringErrors(run: () => void): void {
  try {
    run()
  } catch {
    // The user's function has failed.
  }
}

function isAbort(error: unknown): boolean {
  try {
    const { name } = (typeof error === 'object' && error !== null ? error : {}) as { readonly name?: unknown }
    return name === 'AbortError' || name === 'TimeoutError'
  } catch {
    // Its members cannot be read.
    return false
  }
}

/** What a call was charged, as JSON: `providerMetadata.tollgate` of its result. */
export function metadataOf({ isReported, estimated, settlement }: ModelCharge) {
  const settled = settlement?.settled === true
  const numbers = settled
    ? {
        refunded: settlement.refunded,
        charged: settlement.charged,
        owed: settlement.owed,
        shortfall: settlement.shortfall,
        late: settlement.late,
      }
    : {}
  return { isReported, estimated, settled, ...numbers }
}
