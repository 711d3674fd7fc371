/**
 * A clock for the tests of programs that use tollgate. Needs neither Node.js nor the addon.
 *
 * @module tollgate/testing
 */

export type { Duration } from '../input/duration.js'
export type { TimerClock } from '../platform/timer-clock.js'
export { type AdvanceUntilOptions, TestClock } from './test-clock.js'
