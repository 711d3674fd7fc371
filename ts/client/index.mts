/**
 * `tollgate/client` for `import`: the same module.
 *
 * @packageDocumentation
 */

export type * from './index.js'
export { OutgoingClient } from './index.js'
