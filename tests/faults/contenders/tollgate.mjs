/** tollgate with its default algorithm and settings: README.md and docs/redis.md. */
import { gcra } from 'tollgate'
import { opened } from './of-tollgate.mjs'

/** @type {import('./all.mjs').Contender} */
export const contender = {
  title: 'tollgate, `gcra`',
  packages: ['tollgate'],
  unsupported: {},
  open: (options) => opened(options, ({ limit, windowMs }) => gcra({ limit, period: windowMs })),
}
