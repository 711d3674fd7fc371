/**
 * `tollgate/graphql` for `import`: the same module.
 *
 * @packageDocumentation
 */

export type * from './graphql.js'
export { complexityOf, ipKey, rateLimitPlugin, useRateLimit } from './graphql.js'
