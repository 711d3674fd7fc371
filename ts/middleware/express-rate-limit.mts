/** `tollgate/express-rate-limit` for `import`: the same module. */
export type * from './express-rate-limit.js'
export { TollgateStore } from './express-rate-limit.js'
