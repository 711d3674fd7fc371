/** The time for which this process had work to do, and a busy machine did not run it. */
import { now } from './clock.mjs'

const TICK_MS = 10

let starvedMs = 0
let last = now()
let used = process.cpuUsage()

setInterval(() => {
  const { user, system } = process.cpuUsage(used)
  const time = now()
  starvedMs += Math.max(0, time - last - TICK_MS - (user + system) / 1_000)
  last = time
  used = process.cpuUsage()
}, TICK_MS).unref()

/** In milliseconds, since the process began. */
export function starved() {
  return starvedMs
}
