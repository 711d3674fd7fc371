/** The promise if a replica without the latest writes takes over. */
import { admissions } from './admission.js'
import type { LoadScene, Promised } from './scene.js'

/**
 * Redis replicates asynchronously: writes that were acknowledged but not replicated are lost when
 * the replica takes over. The old state and the new state each keep the law, so a failover admits
 * at most as much again as the law allows.
 */
export const FAILED_OVER: Promised = {
  errors: ['STORE_UNAVAILABLE', 'STORE_TIMEOUT'],
  losses: 1,
  isSetBack: true,
  losesCount: true,
}

/** Notes the actual excess. */
export function notingLosses(promised: Promised): (scene: LoadScene) => Promise<Promised> {
  return async ({ load, note }) => {
    const { told } = load.report().counted
    const forgotten = await load.forgotten().catch(() => Number.NaN)
    const beyond = admissions([load.report()], { losses: 0 }).flatMap(({ wrong }) => wrong ?? [])
    note(`forgotten by the store: ${forgotten} of ${told} units; beyond the law: ${beyond.join('; ') || 'nothing'}`)
    return promised
  }
}
