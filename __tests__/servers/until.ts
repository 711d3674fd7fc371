import { setTimeout as sleep } from 'node:timers/promises'

/** What may take long on a busy machine, and must not take for ever. */
const PATIENCE_MS = 30_000

/**
 * Asks again and again, until the answer is something; failures are answers that are nothing.
 *
 * @param what - What is waited for: an error names it.
 */
export async function until<T>(
  what: string,
  ask: () => Promise<T | undefined | false>,
  patienceMs = PATIENCE_MS,
): Promise<T> {
  const deadline = performance.now() + patienceMs
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
      throw new Error(`${what}: not within ${patienceMs} ms`, { cause: last })
    }
    await sleep(20)
  }
}
