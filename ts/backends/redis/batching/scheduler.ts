import { timers } from '../../../platform/timers.js'
import { Deadlines, type Turn, type Waiting } from './deadlines.js'
import { inRootContext } from './root-context.js'

/** Watches the deadlines of calls. */
export interface Watch {
  /** Watches the calls of a turn that has ended, after all the others. */
  add(turn: Turn): void
  /** Nobody waits any more. */
  rest(): void
}

/** How calls come together, and how they are given up. */
export interface Pace {
  /** Whether calls may wait for rounds that are under way. */
  readonly holds: boolean
  /** Runs a function once those who call now have called. */
  soon(run: () => void): void
  /** @param expire - Called with each call whose time is over. */
  watch(expire: (waiting: Waiting) => void): Watch
}

/** By the event loop: all calls of a process come together. In what is bundled for the web `pace.web.ts` takes its place. */
export const pace: Pace = {
  holds: true,
  soon: (run) => inRootContext(() => timers.setImmediate(run)),
  watch: (expire) => new Deadlines(expire),
}
