/**
 * `tollgate/testing` for `import`: the same module.
 *
 * @packageDocumentation
 */

export type * from './index.js'
export { TestClock } from './index.js'
