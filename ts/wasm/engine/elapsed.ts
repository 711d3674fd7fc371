import { ElapsedClock } from '../../platform/elapsed-clock.js'
import { timers } from '../../platform/timers.js'

const clock = new ElapsedClock(timers.now, Date.now)

export function elapsedMs(): number {
  return clock.now()
}
