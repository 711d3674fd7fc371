// Counts in Redis through the client of Bun, and prints the statuses. The server forgets the script in between.
import { RedisClient } from 'bun'
import { fixedWindow, RateLimiter, RedisStore } from 'tollgate/wasm'

const client = new RedisClient(process.argv[2])
const store = RedisStore.from(([name, ...args]) => client.send(name, args))
const limiter = new RateLimiter(fixedWindow({ limit: 10, window: '1h' }), { store, prefix: 'bun' })
const take = (count) => Promise.all(Array.from({ length: count }, () => limiter.take('user:42')))
const first = await take(6)
await client.send('SCRIPT', ['FLUSH'])
const second = await take(6)
console.log(JSON.stringify([...first, ...second].map(({ status }) => status)))
await store.close()
client.close()
