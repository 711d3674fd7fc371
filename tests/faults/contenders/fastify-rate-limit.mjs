/**
 * @fastify/rate-limit over ioredis, with the two settings of ioredis that
 * https://github.com/fastify/fastify-rate-limit#options recommends.
 */
import rateLimit from '@fastify/rate-limit'
import Fastify from 'fastify'
import { Redis } from 'ioredis'
import { KEY, ONE_PER_REQUEST, requesting } from '../harness/http.mjs'

/** @type {import('./all.mjs').Contender} */
export const contender = {
  title: '@fastify/rate-limit',
  packages: ['@fastify/rate-limit', 'ioredis', 'fastify'],
  unsupported: ONE_PER_REQUEST,
  async open({ port, limit, windowMs }) {
    const redis = new Redis({ host: '127.0.0.1', port, connectTimeout: 500, maxRetriesPerRequest: 1 })
    redis.on('error', () => {})
    const app = Fastify()
    await app.register(rateLimit, {
      max: limit,
      timeWindow: windowMs,
      redis,
      keyGenerator: (request) => request.headers[KEY],
    })
    app.get('/', async () => 'ok')
    await app.listen({ host: '127.0.0.1', port: 0 })
    return requesting(app.server.address().port)
  },
}
