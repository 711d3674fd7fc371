/** Calls on a key are decided in call order, even when batches are resent. */
import { setTimeout as sleep } from 'node:timers/promises'
import { calendarWindow, fixedWindow, RateLimiter, RedisStore, type RunCommand } from '../../../ts/wasm/index.js'
import { PATIENT_MS } from '../../redis/help.js'
import { until } from '../../servers/until.js'
import { ioredis, openedServer } from './stores.js'

const opened = openedServer()

/** The time from a command to its reply: long enough for several flushes in flight at once. */
const ROUND_TRIP_MS = 20

/** A distant client whose replies arrive in order. */
function afar(): RunCommand {
  const client = ioredis(opened.server.port)
  return async ([name = '', ...args]) => {
    const answer = client.call(name, ...args)
    const [outcome] = await Promise.allSettled([answer, sleep(ROUND_TRIP_MS)])
    if (outcome.status === 'rejected') {
      throw outcome.reason
    }
    return outcome.value
  }
}

/**
 * Takes units of one key in successive ticks, and returns the remaining units after each, in call
 * order.
 */
async function remainingAfterTurns(limiter: RateLimiter, key: string, turns: number): Promise<number[]> {
  const calls: Promise<{ readonly remaining: number }>[] = []
  for (let turn = 0; turn < turns; turn++) {
    calls.push(limiter.take(key), limiter.take(key))
    await sleep(3)
  }
  return (await Promise.all(calls)).map(({ remaining }) => remaining)
}

/** A minute ended during a test now and then; a month ends once a month. */
const MONTHS = calendarWindow({ limit: 5_000, every: 'month', timeZone: 'UTC' })
const TWO_YEARS_MS = 800 * 86_400_000

function descending(from: number, count: number): number[] {
  return Array.from({ length: count }, (_, index) => from - 1 - index)
}

test('when the server loses the script', async () => {
  const store = RedisStore.from(afar(), { commandTimeout: PATIENT_MS })
  const limiter = new RateLimiter(fixedWindow({ limit: 5_000, window: '1d' }), { store, prefix: 'forgets' })
  await limiter.take('a')
  for (let time = 0; time < 10; time++) {
    await opened.server.command('SCRIPT', 'FLUSH')
    const before = (await limiter.peek('a', 0)).remaining
    await opened.server.command('SCRIPT', 'FLUSH')
    expect(await remainingAfterTurns(limiter, 'a', 12)).toEqual(descending(before, 24))
  }
  await store.close()
})

test('when the client does not know the time of the server', async () => {
  const now = Date.now()
  for (let time = 0; time < 5; time++) {
    const store = RedisStore.from(afar(), { commandTimeout: PATIENT_MS })
    const limiter = new RateLimiter(MONTHS, { store, prefix: `skewed${time}` })
    // The known server time is two years old.
    const clock = jest.spyOn(Date, 'now').mockReturnValue(now - TWO_YEARS_MS)
    try {
      expect(await remainingAfterTurns(limiter, 'a', 12)).toEqual(descending(5_000, 24))
    } finally {
      clock.mockRestore()
    }
    await store.close()
  }
})

test('when the server cannot run scripts for a while', async () => {
  const run = afar()
  let refusals = 0
  const store = RedisStore.from(
    async (command) => {
      const isRefused = refusals > 0
      refusals -= isRefused ? 1 : 0
      await sleep(1)
      if (isRefused) {
        throw new Error('BUSY Redis is busy running a script')
      }
      return run(command)
    },
    { commandTimeout: PATIENT_MS },
  )
  const limiter = new RateLimiter(fixedWindow({ limit: 5_000, window: '1d' }), { store, prefix: 'busy' })
  await limiter.take('a')
  refusals = 9
  expect(await remainingAfterTurns(limiter, 'a', 5)).toEqual(descending(4_999, 10))
  await store.close()
})

/** Nothing new is sent then, but batches in flight cannot be called back. */
// promise: order-over-redis
test('but a batch in flight after one that has not run may be decided before it', async () => {
  const run = afar()
  let isBusy = false
  let commands = 0
  const store = RedisStore.from(
    async (command) => {
      // As when a foreign script ends between two batches.
      if (isBusy) {
        isBusy = false
        const before = commands
        await until('the second batch has run', async () => commands > before)
        throw new Error('BUSY Redis is busy running a script')
      }
      const answer = await run(command)
      commands++
      return answer
    },
    { commandTimeout: PATIENT_MS },
  )
  const limiter = new RateLimiter(fixedWindow({ limit: 5_000, window: '1d' }), { store, prefix: 'in-flight' })
  await limiter.take('a')
  isBusy = true
  const first = limiter.take('a')
  await until('the first batch is in flight', async () => !isBusy)
  const second = limiter.take('a')
  expect([(await first).remaining, (await second).remaining]).toEqual([4_997, 4_998])
  await store.close()
})

// promise: order-through-function
test('when requests overtake each other', async () => {
  const client = ioredis(opened.server.port)
  // As over HTTP: each request has its own latency.
  let sent = 0
  const script = async (name: string, text: string, keys: string[], args: string[]) => {
    await sleep(sent++ % 2 === 0 ? 15 : 0)
    return client.call(name, text, keys.length, ...keys, ...args)
  }
  const store = RedisStore.from(
    {
      eval: (source, keys, args) => script('EVAL', source, keys, args),
      evalsha: (digest, keys, args) => script('EVALSHA', digest, keys, args),
    },
    { commandTimeout: PATIENT_MS },
  )
  const limiter = new RateLimiter(fixedWindow({ limit: 5_000, window: '1d' }), { store, prefix: 'overtake' })
  await limiter.take('a')
  expect(await remainingAfterTurns(limiter, 'a', 20)).toEqual(descending(4_999, 40))
  await store.close()
})

/** With one request for each tick, which wait for each other, calls would come faster than answers. */
test('calls on a hot key that wait for a request in flight are sent together', async () => {
  const client = ioredis(opened.server.port)
  let requests = 0
  let answer: Promise<void> | undefined
  const script = async (name: string, text: string, keys: string[], args: string[]) => {
    requests++
    const reply = await client.call(name, text, keys.length, ...keys, ...args)
    await answer
    return reply
  }
  const store = RedisStore.from(
    {
      eval: (source, keys, args) => script('EVAL', source, keys, args),
      evalsha: (digest, keys, args) => script('EVALSHA', digest, keys, args),
    },
    { commandTimeout: PATIENT_MS },
  )
  const limiter = new RateLimiter(fixedWindow({ limit: 5_000, window: '1d' }), { store, prefix: 'hot' })
  await limiter.take('a')
  for (const later of ['take', 'peek'] as const) {
    let release = () => {}
    answer = new Promise<void>((resolve) => {
      release = resolve
    })
    requests = 0
    const first = limiter.take('a')
    const calls: Promise<{ readonly remaining: number }>[] = []
    for (let turn = 0; turn < 20; turn++) {
      await sleep(3)
      calls.push(limiter[later]('a'), limiter[later]('a'))
    }
    // In a later tick, a call on another key is sent, and those before it wait. If the ticks have been
    // sent as one flush, it waits with them.
    const others: Promise<unknown>[] = []
    await until('the second request is sent', async () => {
      if (requests === 1) {
        others.push(limiter.take(`other-${later}-${others.length}`))
      }
      return requests > 1
    })
    expect(requests).toBe(2)
    release()
    await Promise.all(others)
    const { remaining } = await first
    const expected = later === 'take' ? descending(remaining, 40) : Array(40).fill(remaining)
    expect((await Promise.all(calls)).map((decision) => decision.remaining)).toEqual(expected)
    expect(requests).toBe(3)
  }
  await store.close()
})

test('when the known server time is old, and batches wait for resent ones', async () => {
  const client = ioredis(opened.server.port)
  // The first flush finds no script, and later ones wait; by then the server's time is known.
  const store = RedisStore.from(
    async ([name = '', ...args]) => {
      const answer = await client.call(name, ...args)
      await sleep(10)
      return answer
    },
    { commandTimeout: PATIENT_MS },
  )
  const limiter = new RateLimiter(MONTHS, { store, prefix: 'waits' })
  const clock = jest.spyOn(Date, 'now').mockReturnValue(Date.now() - TWO_YEARS_MS)
  try {
    await opened.server.command('SCRIPT', 'FLUSH')
    expect(await remainingAfterTurns(limiter, 'a', 15)).toEqual(descending(5_000, 30))
  } finally {
    clock.mockRestore()
  }
  await store.close()
})
