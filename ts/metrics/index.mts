/** `tollgate/metrics` for `import`: the same module. */
export type * from './index.js'
export { instrument, instrumentClient, instrumentStore } from './index.js'
