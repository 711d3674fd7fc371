/** `tollgate/estimate` for `import`: the same module. */
export type * from './index.js'
export { UsageEstimator } from './index.js'
