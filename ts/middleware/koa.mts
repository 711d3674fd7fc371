/**
 * `tollgate/koa` for `import`: the same module.
 *
 * @packageDocumentation
 */

export type * from './koa.js'
export { ipKey, rateLimit } from './koa.js'
