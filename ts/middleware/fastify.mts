/**
 * `tollgate/fastify` for `import`: the same module.
 *
 * @packageDocumentation
 */
import type { FastifyPluginAsync } from 'fastify'
import fastify, { type FastifyPluginOptions } from './fastify.js'

export type * from './fastify.js'
export { ipKey, rateLimit } from './fastify.js'

/** The plugin. Its type is written out: what is inferred cannot be named where a bundler's rules resolve modules. */
const plugin: FastifyPluginAsync<FastifyPluginOptions> = fastify.default
export default plugin
