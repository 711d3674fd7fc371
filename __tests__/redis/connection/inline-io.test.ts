/** Answers are read where they are waited for: in Node's event loop. */
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fixedWindow, RateLimiter, RedisStore } from '../../../ts/index.js'
import { RedisServer } from '../../servers/redis-server.js'
import { openedRedis } from '../opened.js'

const opened = openedRedis()

const POLICY = fixedWindow({ limit: 1_000_000, window: '1h' })

/** Keeps the event loop from turning. */
function block(millis: number): void {
  const until = performance.now() + millis
  while (performance.now() < until);
}

/** Until a call that has just been made has been sent. */
async function sent(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
  await new Promise((resolve) => setImmediate(resolve))
}

/** How often the engine's thread has been woken, as Linux counts it. */
function wakings(): number {
  const tasks = readdirSync('/proc/self/task').map((task) => `/proc/self/task/${task}`)
  const engine = tasks.find((task) => readFileSync(`${task}/comm`, 'utf8').trim() === 'tollgate')
  const found = /^voluntary_ctxt_switches:\s+(\d+)$/m.exec(readFileSync(`${engine}/status`, 'utf8'))
  return Number(found?.[1])
}

// Only Linux tells what a thread does. Where the engine's thread reads, it is woken for each of these calls.
if (process.platform === 'linux') {
  it('no other thread is woken for a call', async () => {
    const limiter = new RateLimiter(POLICY, { store: opened.store, prefix: 'alone' })
    await limiter.take('a')
    const before = wakings()
    for (let call = 0; call < 2_000; call++) {
      await limiter.take('a')
    }
    // It looks after its links, and after callers that do not come, some 200 times a second.
    expect(wakings() - before).toBeLessThan(1_000)
    await limiter.close()
  })
}

it('what is answered while the event loop does not turn is no timeout, and the store is not down', async () => {
  const store = new RedisStore({ url: opened.server.url, commandTimeoutMs: 500 })
  const limiter = new RateLimiter(POLICY, { store, prefix: 'blocked' })
  await limiter.ready()
  const down = jest.fn()
  store.on('down', down)
  for (let round = 0; round < 3; round++) {
    const calls = Promise.all(['a', 'b', 'c'].map((key) => limiter.take(key)))
    await sent()
    block(1_000)
    expect((await calls).map(({ allowed }) => allowed)).toEqual([true, true, true])
  }
  expect(down).not.toHaveBeenCalled()
  await limiter.close()
  await store.close()
})

it('a store that rests for a while answers as before', async () => {
  const limiter = new RateLimiter(POLICY, { store: opened.store, prefix: 'rests' })
  for (const pause of [0, 20, 120, 300, 5]) {
    await sleep(pause)
    expect((await limiter.take('a')).allowed).toBe(true)
  }
  expect((await limiter.peek('a')).remaining).toBe(1_000_000 - 5)
  await limiter.close()
})

it('a link that has ended is listened to no more', async () => {
  const server = await RedisServer.start()
  const store = new RedisStore({ url: server.url, commandTimeoutMs: 200 })
  const limiter = new RateLimiter(POLICY, { store, prefix: 'ends' })
  await limiter.take('a')
  await server.stop()
  const before = process.cpuUsage()
  await sleep(500)
  const { user, system } = process.cpuUsage(before)
  // A socket that has ended can be read again and again, and would keep a processor busy.
  expect((user + system) / 1_000).toBeLessThan(250)
  await limiter.close()
  await store.close()
})
