// Uses stores and drops them unclosed, then prints the number of remaining connections.
import { createConnection } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { fixedWindow, RateLimiter, RedisStore } from 'tollgate'
import { ready } from './ready.mjs'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc')

const [url] = process.argv.slice(2)
const { hostname, port } = new URL(url)

async function use() {
  const limiter = new RateLimiter(fixedWindow({ limit: 100, window: '1h' }), {
    store: new RedisStore(url),
    prefix: 'used',
  })
  await ready(limiter)
  // A busy machine may miss the deadline, which is short: a store is kept for as long after its last call.
  await limiter.take('key').catch(() => {})
}

/** Connections to the server, except this one. */
async function connections() {
  const socket = createConnection(Number(port), hostname)
  socket.write('INFO clients\r\n')
  for await (const text of socket.setEncoding('utf8')) {
    return Number(/^connected_clients:(\d+)/m.exec(text)?.[1]) - 1
  }
}

for (let store = 0; store < 10; store++) {
  await use()
}
console.log(await connections())
for (let tries = 0; tries < 600 && (await connections()) > 0; tries++) {
  collectGarbage()
  await sleep(50)
}
console.log(await connections())
