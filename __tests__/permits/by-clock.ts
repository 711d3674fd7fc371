import type { RedisStore } from '../../ts/index.js'
import { timeOf } from '../../ts/platform/waiting-time.js'
import { TestClock } from '../../ts/testing/index.js'
import { until } from '../servers/until.js'

/** Lets a store's limiters renew permits and wait by a clock that the test advances. For those that are made later. */
export function byClock(store: RedisStore): TestClock {
  const clock = new TestClock()
  const time = timeOf(clock)
  Object.defineProperty(store, 'waitingTime', { value: time, configurable: true })
  // The share of a process states by the engine's clock when it decided.
  Object.defineProperty(store, 'engine', { value: { ...store.engine, elapsedMs: time.elapsedMs }, configurable: true })
  return clock
}

/** Advances such a clock, as long as the answers of a real server take, until a promise is settled. */
export async function settledBy<T>(clock: TestClock, promise: Promise<T>): Promise<T> {
  let isSettled = false
  const onSettled = () => {
    isSettled = true
  }
  promise.then(onSettled, onSettled)
  await until('the call is settled', async () => {
    await clock.advance(20)
    return isSettled
  })
  return promise
}
