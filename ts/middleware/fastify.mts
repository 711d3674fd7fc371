/** `tollgate/fastify` for `import`: the same module. */
import type { FastifyPluginAsync } from 'fastify'
import fastify, { type FastifyPluginOptions } from './fastify.js'

export type * from './fastify.js'
export { ipKey, rateLimit } from './fastify.js'

/** The plugin. Its type is explicit, because the inferred type cannot be named under a bundler's module resolution. */
const plugin: FastifyPluginAsync<FastifyPluginOptions> = fastify.default
export default plugin
