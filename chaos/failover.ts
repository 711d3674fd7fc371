/** What is promised where a replica takes over that may have missed the latest writes. */
import { admissions } from './admission.js'
import type { LoadScene, Promised } from './scene.js'

/**
 * Redis replicates asynchronously: what it had told callers, and not its replica, is forgotten when that takes over.
 * The state of before and the state of after each keep the law, so a failover costs at most the law once more.
 */
export const FAILED_OVER: Promised = {
  errors: ['STORE_UNAVAILABLE', 'STORE_TIMEOUT'],
  losses: 1,
  isSetBack: true,
  losesCount: true,
}

/** Says how much of that excess there was. */
export function notingLosses(promised: Promised): (scene: LoadScene) => Promise<Promised> {
  return async ({ load, note }) => {
    const { told } = load.report().counted
    const forgotten = await load.forgotten().catch(() => Number.NaN)
    const beyond = admissions([load.report()], { losses: 0 }).flatMap(({ wrong }) => wrong ?? [])
    note(`forgotten by the store: ${forgotten} of ${told} units; beyond the law: ${beyond.join('; ') || 'nothing'}`)
    return promised
  }
}
