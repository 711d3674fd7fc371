import { timers } from '../../../platform/timers.js'
import type { Waiting } from './deadlines.js'
import { inRootContext } from './root-context.js'

/**
 * So many smaller rounds are under way at most: while Redis works on two, the calls that come meanwhile
 * make a larger third.
 */
const MOST_PARTIAL = 2

/**
 * A smaller round holds others back for no longer: nothing is gained by waiting for a server that is slow, or for
 * the slowest node of a cluster.
 */
const HOLD_MS = 10

/** Calls that were sent together. */
interface Round {
  readonly calls: readonly Waiting[]
  /** How many of them have no answer. */
  open: number
  /** Whether it holds others back. */
  holds: boolean
  readonly age: number
}

/**
 * The rounds that are under way, by number.
 *
 * They stand in an array with a list of free places. A `Map` would leave its outgrown tables behind as garbage
 * that keeps later ones alive until a full collection, which took half of all time.
 */
export class Rounds {
  readonly #release: () => void
  readonly #rounds: (Round | undefined)[] = []
  readonly #free: number[] = []
  #holding = 0
  /** Counts the timers: a round that began before the latest was set is older than it. */
  #age = 0
  #timer: NodeJS.Timeout | undefined

  /** @param release - Called when rounds have held others back for long enough. */
  constructor(release: () => void) {
    this.#release = release
  }

  /** Whether another smaller round may go. */
  get hasRoom(): boolean {
    return this.#holding < MOST_PARTIAL
  }

  /** Whether more calls are better sent a little later: together, and not for long. */
  hold(): boolean {
    if (this.hasRoom) {
      return false
    }
    if (this.#timer === undefined) {
      this.#age++
      this.#timer = inRootContext(() => timers.setTimeout(this.#ring, HOLD_MS))
      // Callers who wait keep the process alive by their deadlines.
      this.#timer.unref()
    }
    return true
  }

  /** Begins a round, and gives it a number. */
  begin(calls: readonly Waiting[], holds: boolean): number {
    const number = this.#free.pop() ?? this.#rounds.length
    this.#rounds[number] = { calls, open: calls.length, holds, age: this.#age }
    this.#holding += holds ? 1 : 0
    return number
  }

  /**
   * Ends a round, or those of its calls that have these numbers, and tells which calls have been answered. Once half
   * of them are it holds nobody back: a cluster's nodes that are slow must not delay the others, and rounds that are
   * let go earlier are smaller.
   */
  end(number: number, numbers: Uint32Array | undefined): readonly Waiting[] {
    const round = this.#rounds[number]
    if (round === undefined) {
      return []
    }
    round.open -= numbers?.length ?? round.open
    if (round.open * 2 <= round.calls.length) {
      this.#let(round)
    }
    if (round.open === 0) {
      this.#rounds[number] = undefined
      this.#free.push(number)
    }
    return numbers === undefined ? round.calls : Array.from(numbers, (index) => round.calls[index] as Waiting)
  }

  #let(round: Round): void {
    this.#holding -= round.holds ? 1 : 0
    round.holds = false
  }

  readonly #ring = (): void => {
    this.#timer = undefined
    for (const round of this.#rounds) {
      if (round !== undefined && round.age < this.#age) {
        this.#let(round)
      }
    }
    this.#release()
  }
}
