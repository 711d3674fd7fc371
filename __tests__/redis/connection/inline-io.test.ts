/** Replies are read on the thread that waits for them: in Node's event loop. */
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fixedWindow, RateLimiter, RedisStore } from '../../../ts/index.js'
import { RedisServer } from '../../servers/redis-server.js'
import { until } from '../../servers/until.js'
import { loopBlocker } from '../blocked.js'
import { recovery } from '../help.js'
import { openedRedis } from '../opened.js'

const opened = openedRedis()

const POLICY = fixedWindow({ limit: 1_000_000, window: '1h' })

/** Waits until a call just made has been sent. */
async function sent(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
  await new Promise((resolve) => setImmediate(resolve))
}

/** The number of wake-ups of the engine's thread, from Linux's statistics. */
function wakings(): number {
  const tasks = readdirSync('/proc/self/task').map((task) => `/proc/self/task/${task}`)
  const engine = tasks.find((task) => readFileSync(`${task}/comm`, 'utf8').trim() === 'tollgate')
  const found = /^voluntary_ctxt_switches:\s+(\d+)$/m.exec(readFileSync(`${engine}/status`, 'utf8'))
  return Number(found?.[1])
}

// Only Linux has statistics for a thread. If the engine's thread did the reading, each of these
// calls would wake it.
if (process.platform === 'linux') {
  it('a call wakes no other thread', async () => {
    const limiter = new RateLimiter(POLICY, { store: opened.store, prefix: 'alone' })
    await limiter.take('a')
    const [before, start] = [wakings(), performance.now()]
    for (let call = 0; call < 2_000; call++) {
      await limiter.take('a')
    }
    // It checks its connections, and whether the event loop still reads them, some 200 times a
    // second. On a slow machine the calls take seconds.
    const checks = 0.3 * (performance.now() - start)
    expect(wakings() - before).toBeLessThan(1_000 + checks)
    await limiter.close()
  })
}

it('replies that arrive while the event loop is blocked are neither a timeout nor an outage', async () => {
  const { server } = opened
  const store = new RedisStore({ url: server.url, commandTimeout: 500 })
  const limiter = new RateLimiter(POLICY, { store, prefix: 'blocked' })
  await until('the store is ready', () => limiter.ready().then(() => true))
  const down = jest.fn()
  store.on('down', down)
  for (let round = 0; round < 3; round++) {
    const block = await loopBlocker(server, (await server.command<number>('DBSIZE')) + 3)
    const calls = Promise.all(['a', 'b', 'c'].map((key) => limiter.take(`${key}${round}`)))
    await sent()
    await block(1_000)
    expect((await calls).map(({ allowed }) => allowed)).toEqual([true, true, true])
  }
  expect(down).not.toHaveBeenCalled()
  await limiter.close()
  await store.close()
})

it('a store works after an idle time', async () => {
  const limiter = new RateLimiter(POLICY, { store: opened.store, prefix: 'rests' })
  for (const pause of [0, 20, 120, 300, 5]) {
    await sleep(pause)
    expect((await limiter.take('a')).allowed).toBe(true)
  }
  expect((await limiter.peek('a')).remaining).toBe(1_000_000 - 5)
  await limiter.close()
})

it('a closed connection is not polled', async () => {
  const server = await RedisServer.start()
  const store = new RedisStore({ url: server.url, commandTimeout: 200 })
  const limiter = new RateLimiter(POLICY, { store, prefix: 'ends' })
  await recovery(limiter, 'a')
  await server.stop()
  // A closed socket stays readable, and polling it would use a whole processor all the time.
  await until('the process idles', async () => {
    const before = process.cpuUsage()
    await sleep(200)
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1_000 < 50
  })
  await limiter.close()
  await store.close()
})
