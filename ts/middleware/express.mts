/**
 * `tollgate/express` for `import`: the same module.
 *
 * @packageDocumentation
 */

export type * from './express.js'
export { ipKey, rateLimit } from './express.js'
