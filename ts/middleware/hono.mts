/** `tollgate/hono` for `import`: the same module. */
export type * from './hono.js'
export { ipKey, rateLimit } from './hono.js'
