/** tollgate that decides in the process while Redis is unreachable: docs/failure-modes.md. */
import { gcra } from 'tollgate'
import { opened } from './of-tollgate.mjs'

/** @type {import('./all.mjs').Contender} */
export const contender = {
  title: 'tollgate, `gcra`, embedded share',
  packages: ['tollgate'],
  unsupported: {},
  open: (options) =>
    opened(options, ({ limit, windowMs }) => gcra({ limit, period: windowMs }), {
      onStoreFailure: { embedded: { share: 1 / options.processes } },
    }),
}
