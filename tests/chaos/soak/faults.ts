import { setTimeout as sleep } from 'node:timers/promises'
import { type CallReport, STRETCH_MS } from './calls.js'
import { type CheckedName, LawCheck, type Units } from './checked.js'
import type { SoakFault, SoakTarget } from './targets.js'

/** A fault that has been injected: times in epoch milliseconds. */
export interface Injected {
  readonly target: string
  readonly name: string
  readonly from: number
  /** The time at which the servers were healthy again. */
  readonly to: number
}

/** The duration of a fault that may have any, and of the quiet time after it: milliseconds, with a random part. */
const [FAULT_MS, FAULT_MORE_MS] = [1_000, 5_000]
const [QUIET_MS, QUIET_MORE_MS] = [8_000, 6_000]

/**
 * Calls that are made a second after the recovery, or later, must succeed. Those before it end by
 * their deadline. In milliseconds, with a second for a busy machine.
 */
const NORMAL_MS = 4_000

/**
 * Decisions from before a loss may still be used for the time of a lease, and a client may know the
 * new master a moment later. In milliseconds.
 */
const AFTER_LOSS_MS = 3_000

/** So often the servers are given half a minute to work together. */
const ATTEMPTS = 4

/** Injects faults into one target, one after the other, and checks the effect of each. */
export class FaultRun {
  readonly target: SoakTarget
  readonly injected: Injected[] = []
  readonly law = new LawCheck()
  readonly #random: () => number
  readonly #onViolation: (text: string) => void
  #masters = ''
  #failures: number[] = []
  /** The time until which failures are due to a fault. */
  #excusedUntil = Number.POSITIVE_INFINITY
  /** The faults that have not been injected in this turn of all faults. */
  #left: SoakFault[] = []

  constructor(target: SoakTarget, random: () => number, onViolation: (text: string) => void) {
    this.target = target
    this.#random = random
    this.#onViolation = (text) => onViolation(`${target.name}: ${text}`)
  }

  /** Adds what a process has reported. */
  add(units: Units, failures: CallReport['failures'][string]): void {
    for (const [name, times] of Object.entries(units)) {
      this.law.add(name as CheckedName, times)
    }
    this.#failures.push(...failures)
  }

  /** Injects faults until the signal is aborted. The last one is repaired. */
  async run(signal: AbortSignal): Promise<void> {
    this.#masters = await this.target.agreed()
    await this.#quiet(signal)
    while (!signal.aborted) {
      await this.#inject(this.#next())
      await this.#quiet(signal)
    }
  }

  /** Waits longer than the target does. */
  async #agreed(): Promise<string> {
    for (let attempt = 1; attempt < ATTEMPTS; attempt++) {
      try {
        return await this.target.agreed()
      } catch {}
    }
    return await this.target.agreed()
  }

  /** All faults in a random order, then all again. */
  #next(): SoakFault {
    if (this.#left.length === 0) {
      this.#left = this.target.faults
        .map((fault) => ({ fault, order: this.#random() }))
        .sort((a, b) => a.order - b.order)
        .map(({ fault }) => fault)
    }
    return this.#left.pop() as SoakFault
  }

  async #inject(fault: SoakFault): Promise<void> {
    const { losses = 0, overlapMs = 0, name } = fault
    const from = Date.now()
    this.#checkFailures(from)
    this.#excusedUntil = Number.POSITIVE_INFINITY
    const failed = await fault.run(FAULT_MS + FAULT_MORE_MS * this.#random()).then(
      () => '',
      // On a busy machine the servers may need longer for an election than anybody waits.
      (error: Error) => ` (${error.message})`,
    )
    this.#masters = await this.#agreed()
    const to = Date.now()
    this.#excusedUntil = to + NORMAL_MS
    this.injected.push({ target: this.target.name, name: `${name}${failed}`, from, to })
    if (losses > 0) {
      this.#lose(from, to, losses, overlapMs)
    }
  }

  #lose(from: number, to: number, losses: number, overlapMs: number): void {
    for (const violation of this.law.check({ from: from - 100, to: to + AFTER_LOSS_MS, losses, overlapMs })) {
      this.#onViolation(violation)
    }
  }

  async #quiet(signal: AbortSignal): Promise<void> {
    const from = Date.now()
    await sleep(QUIET_MS + QUIET_MORE_MS * this.#random(), undefined, { signal }).catch(() => {})
    const masters = await this.#agreed()
    const to = Date.now()
    if (masters !== this.#masters) {
      // The servers failed over by themselves, because the machine was busy.
      this.#masters = masters
      this.#excusedUntil = to
      this.injected.push({ target: this.target.name, name: 'unplanned failover', from, to })
      this.#lose(from, to, 1, 0)
    }
    this.#checkFailures(to)
  }

  /** Calls must not fail between faults. */
  #checkFailures(now: number): void {
    const late = this.#failures.filter((at) => at > this.#excusedUntil && at < now - STRETCH_MS)
    this.#failures = []
    if (late.length > 0) {
      const [first] = late as [number]
      const last = this.injected.at(-1)
      const after = last === undefined ? '' : `, ${first - last.to} ms after ${last.name}`
      this.#onViolation(`calls failed in a quiet time: ${late.length} times${after}`)
    }
  }

  /** Checks the rest, after the processes have ended. */
  end(): void {
    for (const violation of this.law.check()) {
      this.#onViolation(violation)
    }
  }
}
