// One of several processes: an Express app with express-rate-limit and its hits in Redis. It sends
// itself parallel requests of one client, prints their statuses and exits.
import { once } from 'node:events'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import { RedisStore } from 'tollgate'
import { TollgateStore } from 'tollgate/express-rate-limit'

const { url, limit, requests } = JSON.parse(process.argv[2])

const redis = new RedisStore({ url, commandTimeout: 30_000 })
const store = new TollgateStore({ store: redis, prefix: 'api' })
const app = express()
app.use(rateLimit({ windowMs: 3_600_000, limit, store, keyGenerator: () => 'everyone' }))
app.get('/', (_req, res) => res.send('hello'))
const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')
const sent = Array.from({ length: requests }, async () => {
  const response = await fetch(`http://127.0.0.1:${server.address().port}`)
  await response.arrayBuffer()
  return response.status
})
process.send(await Promise.all(sent))
server.close()
server.closeAllConnections()
await store.shutdown()
await redis.close()
process.disconnect()
