/** tollgate with the algorithm for a limit in any window: docs/choosing.md and docs/redis.md. */
import { slidingWindow } from 'tollgate'
import { opened } from './of-tollgate.mjs'

/** @type {import('./all.mjs').Contender} */
export const contender = {
  title: 'tollgate, `slidingWindow`',
  packages: ['tollgate'],
  unsupported: {},
  open: (options) => opened(options, ({ limit, windowMs }) => slidingWindow({ limit, window: windowMs })),
}
