/**
 * express-rate-limit with rate-limit-redis over node-redis: the first example of
 * https://github.com/express-rate-limit/rate-limit-redis#examples, with an `error` handler, which node-redis
 * requires (https://github.com/redis/node-redis#events).
 */
import { once } from 'node:events'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import { RedisStore } from 'rate-limit-redis'
import { createClient } from 'redis'
import { KEY, ONE_PER_REQUEST, requesting } from '../harness/http.mjs'

/** @type {import('./all.mjs').Contender} */
export const contender = {
  title: 'express-rate-limit, rate-limit-redis',
  packages: ['express-rate-limit', 'rate-limit-redis', 'redis', 'express'],
  unsupported: ONE_PER_REQUEST,
  async open({ port, limit, windowMs }) {
    const client = createClient({ url: `redis://127.0.0.1:${port}` })
    client.on('error', () => {})
    await client.connect()
    const app = express()
    app.use(
      rateLimit({
        windowMs,
        limit,
        standardHeaders: true,
        legacyHeaders: false,
        keyGenerator: (req) => req.get(KEY),
        store: new RedisStore({ sendCommand: (...args) => client.sendCommand(args) }),
      }),
    )
    app.get('/', (_, res) => res.send('ok'))
    // Express logs errors unless it runs as in a test.
    app.set('env', 'test')
    const server = app.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return requesting(server.address().port)
  },
}
