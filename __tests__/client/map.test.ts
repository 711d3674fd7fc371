/** `map` of `OutgoingClient` by a `TestClock`: sources that fail or are slow, waits for room, and the end of the client. */

import { type ClientOptions, OutgoingClient } from '../../ts/client/index.js'
import { concurrency, gcra } from '../../ts/index.js'
import { clock, limiterOf, pass } from './clocked.js'

const clientOf = (options: Partial<ClientOptions> = {}) => {
  return new OutgoingClient({ clock, key: 'k', limiter: limiterOf(concurrency({ limit: 1 })), ...options })
}

/** What a promise has become by now: its value or its error. */
async function settledNow(promise: Promise<unknown>): Promise<unknown> {
  let settled: unknown = 'pending'
  void outcomeOf(promise).then((outcome) => {
    settled = outcome
  })
  await pass(1)
  return settled
}

/** Reads the value or the error of a promise that is settled later. */
const outcomeOf = (promise: Promise<unknown>) => promise.catch((error: unknown) => error)

describe('room', () => {
  test('a call that is aborted while it waits for room rejects at once, and others go on', async () => {
    const api = clientOf({ maxQueued: 1 })
    const running = api.schedule(() => clock.sleep('100ms'))
    await pass(10)
    const queued = api.schedule(() => clock.sleep('100ms'))
    const controller = new AbortController()
    const aborted = outcomeOf(api.map([1], () => 'a', { signal: controller.signal }))
    const next = api.map([1, 2], (value) => `b${value}`)
    await pass(10)
    controller.abort('no longer')
    expect(await settledNow(aborted)).toMatchObject({ code: 'ABORTED', attempts: 0, cause: 'no longer' })
    await pass(500)
    await Promise.all([running, queued])
    expect(await settledNow(next)).toEqual(['b1', 'b2'])
    expect(api.status()).toMatchObject({ queued: 0, running: 0 })
  })

  test('a call that is aborted when its turn for room has come leaves the room to the next one', async () => {
    const api = clientOf({ maxQueued: 1 })
    const controller = new AbortController()
    const running = api.schedule(() => clock.sleep('100ms'))
    await pass(10)
    const queued = api.schedule(() => controller.abort())
    const aborted = outcomeOf(api.map([1], () => 'a', { signal: controller.signal }))
    const next = api.map([1], () => 'b')
    await pass(500)
    await Promise.all([running, queued])
    expect(await settledNow(next)).toEqual(['b'])
    expect(await settledNow(aborted)).toMatchObject({ code: 'ABORTED' })
  })

  test('the calls of a map that has failed do not wait for room', async () => {
    const api = clientOf({ maxQueued: 1 })
    const failed = outcomeOf(
      api.map([1, 2, 3], async (value) => {
        await clock.sleep('100ms')
        throw new Error(`value ${value}`)
      }),
    )
    await pass(150)
    expect(await settledNow(failed)).toMatchObject({ message: 'value 1' })
    await pass(500)
    expect(api.status()).toMatchObject({ queued: 0, running: 0 })
  })
})

describe('sources', () => {
  test.each(['throws', 'rejects'])(
    'one that %s ends the map: no further call starts, and the others are aborted',
    async (how) => {
      const api = clientOf()
      const error = new Error('source')
      function* throwing() {
        yield* [0, 1, 2]
        throw error
      }
      const rejecting = async function* () {
        yield* throwing()
      }
      let [started, aborted] = [0, 0]
      const run = async (_: number, __: number, { signal }: { readonly signal: AbortSignal }) => {
        started++
        signal.addEventListener('abort', () => aborted++)
        await clock.sleep('50ms')
      }
      const mapped = outcomeOf(api.map(how === 'throws' ? throwing() : rejecting(), run as never))
      await pass(10)
      expect(await settledNow(mapped)).toBe(error)
      await pass(1_000)
      expect([started, aborted]).toEqual([1, 1])
      expect(api.status()).toMatchObject({ queued: 0, running: 0 })
    },
  )

  test('an error does not wait for the next value of a slow one, which is told to end', async () => {
    const api = clientOf({ limiter: limiterOf(gcra({ limit: 100, period: '1s' })) })
    let returned = 0
    const values = [1, 2]
    const slow: AsyncIterable<number> = {
      [Symbol.asyncIterator]: () => ({
        next: async () => {
          const value = values.shift()
          await (value === undefined ? clock.sleep('1h') : undefined)
          return { done: false, value: value ?? 3 }
        },
        return: async () => {
          returned++
          return { done: true, value: undefined }
        },
      }),
    }
    const started: number[] = []
    const mapped = outcomeOf(
      api.map(slow, async (value) => {
        started.push(value)
        throw new Error(`value ${value}`)
      }),
    )
    await pass(10)
    expect(await settledNow(mapped)).toMatchObject({ message: 'value 1' })
    expect(returned).toBe(1)
    await pass(3_600_000)
    expect(started).toEqual([1, 2])
  })

  test('promises are values of an iterable, as for `for await`', async () => {
    const api = clientOf()
    const mapped = api.map([Promise.resolve(1), 2], async (value) => (await value) * 2)
    await pass(10)
    expect(await mapped).toEqual([2, 4])
  })
})

describe('close', () => {
  const working = () => {
    const seen = { taken: 0, started: 0, ended: 0, aborted: 0 }
    function* values() {
      for (; seen.taken < 200; ) {
        yield seen.taken++
      }
    }
    const run = async (_: number, __: number, { signal }: { readonly signal: AbortSignal }) => {
      seen.started++
      signal.addEventListener('abort', () => seen.aborted++)
      await clock.sleep('50ms')
      seen.ended++
    }
    return { seen, values, run: run as never }
  }

  test('waits for the calls of the values that a map has taken; then the map rejects', async () => {
    const api = clientOf({ limiter: limiterOf(concurrency({ limit: 4 })) })
    const { seen, values, run } = working()
    const mapped = outcomeOf(api.map(values(), run))
    await pass(120)
    const { taken } = seen
    const closing = api.close()
    await pass(5_000)
    expect(await settledNow(closing)).toEqual({ notStarted: 0, interrupted: 0 })
    expect(seen).toEqual({ taken, started: taken, ended: taken, aborted: 0 })
    expect(await settledNow(mapped)).toMatchObject({
      code: 'CLOSED',
      attempts: taken,
      message: `the client has been closed; map has made the calls of ${taken} values, and takes no further value`,
    })
    await expect(api.map([1], () => {})).rejects.toMatchObject({ code: 'CLOSED', attempts: 0 })
  })

  test('also waits for those that wait for room, and a map whose source has ended resolves', async () => {
    const api = clientOf({ maxQueued: 1 })
    const mapped = api.map([1, 2, 3, 4], async (value) => {
      await clock.sleep('50ms')
      return value
    })
    await pass(10)
    const closing = api.close()
    await pass(1_000)
    expect(await settledNow(mapped)).toEqual([1, 2, 3, 4])
    expect(await settledNow(closing)).toEqual({ notStarted: 0, interrupted: 0 })
  })

  test('does not wait for the next value of a source', async () => {
    const api = clientOf()
    async function* slow() {
      yield 1
      await clock.sleep('1h')
      yield 2
    }
    const mapped = outcomeOf(api.map(slow(), (value) => value))
    await pass(10)
    expect(await settledNow(api.close())).toEqual({ notStarted: 0, interrupted: 0 })
    expect(await settledNow(mapped)).toMatchObject({ code: 'CLOSED', attempts: 1 })
  })

  test('the error of a call comes before that of the end', async () => {
    const api = clientOf()
    const mapped = outcomeOf(
      api.map([1, 2, 3].values(), async (value) => {
        await clock.sleep('50ms')
        throw new Error(`value ${value}`)
      }),
    )
    await pass(10)
    const closing = api.close()
    await pass(1_000)
    expect(await settledNow(mapped)).toMatchObject({ message: 'value 1' })
    expect(await settledNow(closing)).toEqual({ notStarted: 0, interrupted: 0 })
  })

  test('after its timeout the calls of a map end, also those that wait for room', async () => {
    const api = clientOf({ maxQueued: 2 })
    const { seen, values, run } = working()
    const mapped = outcomeOf(api.map(values(), run))
    await pass(10)
    const { taken } = seen
    const closing = api.close({ timeout: 20 })
    await pass(20)
    expect(await settledNow(closing)).toEqual({ notStarted: taken - 1, interrupted: 1 })
    expect(await settledNow(mapped)).toMatchObject({ code: 'CLOSED', attempts: 0 })
    expect(seen).toMatchObject({ started: 1, aborted: 1 })
  })
})
