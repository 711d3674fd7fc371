/** `tollgate/graphql` for `import`: the same module. */
export type * from './graphql.js'
export { complexityOf, ipKey, rateLimitPlugin, useRateLimit } from './graphql.js'
