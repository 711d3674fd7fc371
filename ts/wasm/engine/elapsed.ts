import { timers } from '../../platform/timers.js'

let latest = { monotonic: timers.now(), wall: Date.now() }
let elapsed = 0

/**
 * Milliseconds since the start of the module. The platform has a monotonic clock that may stop while
 * the machine is suspended, and a clock of the day that may step. The time of each pair of reads is
 * the longer of the two: it is never too short unless the clock of the day is set back during a
 * suspension, by as long as that.
 */
export function elapsedMs(): number {
  const now = { monotonic: timers.now(), wall: Date.now() }
  elapsed += Math.max(now.monotonic - latest.monotonic, now.wall - latest.wall)
  latest = now
  return elapsed
}
