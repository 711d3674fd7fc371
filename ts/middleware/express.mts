/** `tollgate/express` for `import`: the same module. */
export type * from './express.js'
export { ipKey, rateLimit } from './express.js'
