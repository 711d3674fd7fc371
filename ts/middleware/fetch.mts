/** `tollgate/fetch` for `import`: the same module. */
export type * from './fetch.js'
export { ipKey, withRateLimit } from './fetch.js'
