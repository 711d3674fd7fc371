/** `tollgate/testing` for `import`: the same module. */
export type * from './index.js'
export { TestClock } from './index.js'
