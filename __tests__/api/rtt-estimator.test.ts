/** The flushes in flight that keep the server busy, by the round trips. */
import { RttEstimator } from '../../ts/backends/redis/batching/rtt-estimator.js'

test('a distant server has more flushes in flight than a near one', () => {
  const [near, distant] = [new RttEstimator(), new RttEstimator()]
  near.add(0.2, true)
  distant.add(20, true)
  expect(near.maxInFlight).toBe(4)
  expect(distant.maxInFlight).toBeGreaterThan(100)
})

test('a clock too coarse to measure a round trip does not stop the flushes', () => {
  const estimator = new RttEstimator()
  estimator.add(0, true)
  expect(estimator.maxInFlight).toBe(4)
})
