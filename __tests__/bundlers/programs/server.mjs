// A service with two engines. It makes some requests to itself and prints the answers.
import express from 'express'
import { gcra, RateLimiter } from 'tollgate'
import { rateLimit } from 'tollgate/express'
import { RateLimiter as WasmLimiter } from 'tollgate/wasm'

const policy = gcra({ limit: 2, period: '1h' })
const app = express()
app.use(rateLimit({ limiter: new RateLimiter(policy), key: () => 'user:42' }))
app.get('/', (_request, response) => {
  response.end('ok')
})

const server = app.listen(0, '127.0.0.1', async () => {
  const url = `http://127.0.0.1:${server.address().port}/`
  const statuses = []
  for (let count = 0; count < 3; count++) {
    statuses.push((await fetch(url)).status)
  }
  const { status, remaining } = new WasmLimiter(policy).takeSync('user:42')
  console.log(JSON.stringify({ statuses, wasm: { status, remaining } }))
  server.closeAllConnections()
  server.close()
})
