import { setTimeout as sleep } from 'node:timers/promises'

/** The time limit for events that may take long on a busy machine. */
const TIMEOUT_MS = 120_000

/**
 * Calls a function repeatedly until it returns a value. A thrown error counts as no value.
 *
 * @param what - The awaited event, which the timeout error names.
 */
export async function until<T>(
  what: string,
  ask: () => Promise<T | undefined | false>,
  timeoutMs = TIMEOUT_MS,
): Promise<T> {
  const deadline = performance.now() + timeoutMs
  let last: unknown
  for (;;) {
    try {
      const answer = await ask()
      if (answer !== undefined && answer !== false) {
        return answer
      }
      last = answer
    } catch (error) {
      last = error
    }
    if (performance.now() > deadline) {
      throw new Error(`${what}: not within ${timeoutMs} ms`, { cause: last })
    }
    await sleep(20)
  }
}
