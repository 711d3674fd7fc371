/**
 * `tollgate/fetch` for `import`: the same module.
 *
 * @packageDocumentation
 */

export type * from './fetch.js'
export { ipKey, withRateLimit } from './fetch.js'
