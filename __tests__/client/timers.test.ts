/** Times that are longer than a timer of the platform can be. */
import { OutgoingClient } from '../../ts/client/index.js'
import { fixedWindow, MemoryStore, RateLimiter } from '../../ts/index.js'
import { fakeableTimers, MAX_TIMER_MS, timers } from '../../ts/platform/timers.js'
import { timeOf } from '../../ts/platform/waiting-time.js'
import { TestClock } from '../../ts/testing/index.js'

test.each([
  ['timers', timers],
  ['fakeableTimers', fakeableTimers],
])('%s of the package are cut, and so neither fire at once nor warn', async (_, own) => {
  const warned = jest.fn()
  process.on('warning', warned)
  const fired = jest.fn()
  const [timeout, interval] = [own.setTimeout(fired, 2 ** 31), own.setInterval(fired, 60 * 86_400_000)]
  // Node.js makes a timer that is too long one of 1 ms, which would fire before this later one.
  await new Promise((resolve) => setTimeout(resolve, 1))
  own.clearTimeout(timeout)
  own.clearInterval(interval)
  process.off('warning', warned)
  expect(fired).not.toHaveBeenCalled()
  expect(warned).not.toHaveBeenCalled()
})

test('timers of a given clock are cut, too', () => {
  const clock = new TestClock()
  const set = jest.spyOn(clock, 'setTimeout')
  timeOf(clock).setTimeout(() => {}, 2 ** 40)
  expect(set.mock.calls.map(([, millis]) => millis)).toEqual([MAX_TIMER_MS])
})

test('calls under a limit or a block of 60 days are refused at once, and set no timer of that length', async () => {
  const clock = new TestClock()
  const limiter = new RateLimiter(fixedWindow({ limit: 1, window: '60d' }), { store: new MemoryStore({ clock }) })
  const api = new OutgoingClient({ limiter, clock, key: 'k' })
  const set = jest.spyOn(clock, 'setTimeout')
  await api.schedule(() => {})
  const waiting = api.schedule(() => 'day', { maxWait: '1d' })
  await expect(waiting).rejects.toMatchObject({ code: 'WAIT_TOO_LONG', decision: { status: 'refused' } })
  await limiter.block('k', '60d')
  await expect(api.schedule(() => 'day')).rejects.toMatchObject({ code: 'WAIT_TOO_LONG' })
  expect(Math.max(0, ...set.mock.calls.map(([, millis]) => millis))).toBeLessThanOrEqual(86_400_000)
})
