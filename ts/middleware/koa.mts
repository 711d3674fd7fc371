/** `tollgate/koa` for `import`: the same module. */
export type * from './koa.js'
export { ipKey, rateLimit } from './koa.js'
