/** The batching of calls, as Redis sees it. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { fixedWindow, RateLimiter } from '../../../ts/index.js'
import { until } from '../../servers/until.js'
import { openedRedis } from '../opened.js'

const opened = openedRedis()

/** Keeps `inFlight` calls in flight until it is stopped, or for a number of calls. */
function keepUp(limiter: RateLimiter, inFlight: number, calls: number) {
  let made = 0
  let isOver = false
  const caller = async () => {
    while (!isOver && made < calls) {
      await limiter.take(`user:${made++ % 1_000}`)
    }
  }
  const over = Promise.all(Array.from({ length: inFlight }, caller))
  return {
    over,
    stop: () => {
      isOver = true
      return over
    },
  }
}

/** The numbers of keys of the next scripts on a server, once it reports them: by MONITOR, read live. */
async function monitored(port: number, count: number): Promise<{ readonly sizes: Promise<number[]> }> {
  const socket = connect({ host: '127.0.0.1', port }).setEncoding('latin1')
  await once(socket, 'connect')
  socket.write('MONITOR\r\n')
  const [first] = await once(socket, 'data')
  return { sizes: sizesOf(socket, `${first}`, count) }
}

async function sizesOf(socket: Socket, first: string, count: number): Promise<number[]> {
  const sizes: number[] = []
  let text = first
  for await (const chunk of socket) {
    const lines = (text + chunk).split('\r\n')
    text = lines.pop() ?? ''
    sizes.push(...lines.flatMap((line) => /"EVALSHA" "\w+" "(\d+)"/.exec(line)?.[1] ?? []).map(Number))
    if (sizes.length >= count) {
      break
    }
  }
  return sizes
}

/** Waits until a sample of a hundred flushes passes: a busy machine disturbs some, but not all. */
async function untilSample(port: number, isRight: (sizes: readonly number[]) => boolean): Promise<void> {
  await until('a hundred flushes are right', async () => isRight(await (await monitored(port, 100)).sizes))
}

it('uneven flushes become even, so that Redis and the process work at the same time', async () => {
  const { server, store } = opened
  const limiter = new RateLimiter(fixedWindow({ limit: 1_000_000, window: '1h' }), { store, prefix: 'even' })
  // After a burst the store still expects many calls: few are then sent in one large flush and a
  // small one.
  await keepUp(limiter, 512, 10_000).over
  const load = keepUp(limiter, 64, Number.POSITIVE_INFINITY)
  const sum = (all: readonly number[]) => all.reduce((total, size) => total + size, 0)
  const areEven = (sizes: readonly number[]) => sum(sizes.filter((size) => size >= 8 && size <= 32)) > 0.8 * sum(sizes)
  await untilSample(server.port, areEven)
  await load.stop()
  await limiter.close()
})

it.each([4, 8, 16, 32])('%i callers in a loop are sent in several flushes', async (inFlight) => {
  const { server, store } = opened
  const policy = fixedWindow({ limit: 1_000_000, window: '1h' })
  const limiter = new RateLimiter(policy, { store, prefix: `again-${inFlight}` })
  const load = keepUp(limiter, inFlight, Number.POSITIVE_INFINITY)
  const areParts = (sizes: readonly number[]) => sizes.filter((size) => size <= inFlight / 2).length > 80
  await untilSample(server.port, areParts)
  await load.stop()
  await limiter.close()
})

// promise: one-round-trip
it('calls made together after an idle time are sent together', async () => {
  const { server, store } = opened
  const limiter = new RateLimiter(fixedWindow({ limit: 1_000_000, window: '1h' }), { store, prefix: 'rested' })
  const together = () => Promise.all(Array.from({ length: 30 }, (_, user) => limiter.take(`user:${user}`)))
  await together()
  const { sizes } = await monitored(server.port, 5)
  for (let times = 0; times < 5; times++) {
    await sleep(50)
    await together()
  }
  expect(await sizes).toEqual([30, 30, 30, 30, 30])
  await limiter.close()
})

test('calls are answered in call order, whichever thread reads the answers', async () => {
  const limiter = new RateLimiter(fixedWindow({ limit: 1_000_000, window: '1h' }), {
    store: opened.store,
    prefix: 'in-order',
  })
  await limiter.take('a')
  for (let trial = 0; trial < 20; trial++) {
    const answered: string[] = []
    const call = (name: string) => {
      // A preview is sent at once, after the calls before it.
      return [limiter.take(name), limiter.peek(name)].map((answer) => answer.then(() => answered.push(name)))
    }
    // While the event loop is busy, the engine's thread reads the first answers. The others arrive
    // shortly before the event loop reads again.
    const first = call('first')
    blockFor(20)
    const second = call('second')
    blockFor(1)
    await Promise.all([...first, ...second])
    expect(answered).toEqual(['first', 'first', 'second', 'second'])
  }
  await limiter.close()
})

/** Keeps the event loop busy. */
function blockFor(ms: number): void {
  const end = performance.now() + ms
  while (performance.now() < end) {}
}
