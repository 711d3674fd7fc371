/** `tollgate/headers` for `import`: the same module. */
export type * from './index.js'
export { rateLimitHeaders } from './index.js'
