/**
 * `tollgate/fastify` for `import`: the same module.
 *
 * @packageDocumentation
 */
import fastify from './fastify.js'

export type * from './fastify.js'
export { ipKey, rateLimit } from './fastify.js'
export default fastify.default
