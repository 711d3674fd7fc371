/** `tollgate/client` for `import`: the same module. */
export type * from './index.js'
export { OutgoingClient } from './index.js'
