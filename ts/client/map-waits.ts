import { addAbortListener, removeAbortListener } from '../api/scheduled-waits.js'
import type { AbortSignalLike } from '../api/wait.js'

/** The calls of `map` that wait until fewer calls wait, in their order. */
export class MapWaits {
  readonly #hasRoom: () => boolean
  readonly #waiting = new Set<() => void>()

  constructor(hasRoom: () => boolean) {
    this.#hasRoom = hasRoom
  }

  /** Whether a call with these signals has to wait. It does not if it is aborted: it is rejected. */
  isFullFor(signals: readonly AbortSignalLike[]): boolean {
    return !this.#hasRoom() && !signals.some(({ aborted }) => aborted)
  }

  /** Resolves when there may be room, or when a signal is aborted. */
  wait(signals: readonly AbortSignalLike[]): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        this.#waiting.delete(wake)
        for (const signal of signals) {
          removeAbortListener(signal, wake)
        }
        resolve()
      }
      this.#waiting.add(wake)
      for (const signal of signals) {
        addAbortListener(signal, wake)
      }
    })
  }

  /** Wakes the first call if there is room. */
  offer(): void {
    const [wake] = this.#waiting
    if (wake !== undefined && this.#hasRoom()) {
      wake()
    }
  }

  /** Returns how many calls waited. */
  wakeAll(): number {
    const wakes = [...this.#waiting]
    for (const wake of wakes) {
      wake()
    }
    return wakes.length
  }
}
