import { YieldTicks } from '../../ts/platform/yield-tick.js'

test('results are immediate except one in 64, which yields to the event loop', async () => {
  const turns = new YieldTicks()
  let turned = false
  setImmediate(() => {
    turned = true
  })
  const given = Array.from({ length: 64 }, (_, index) => turns.resolve(index))
  expect(given.slice(0, 63)).toEqual(Array.from({ length: 63 }, (_, index) => index))
  expect(turned).toBe(false)
  expect(await given[63]).toBe(63)
  expect(turned).toBe(true)
})

test('a caller that retries refusals in a tight loop does not starve the event loop', async () => {
  const turns = new YieldTicks()
  let turned = false
  setTimeout(() => {
    turned = true
  }, 1)
  let refused = 0
  while (!turned) {
    await turns.reject(new Error('no')).catch(() => refused++)
  }
  expect(refused).toBeGreaterThanOrEqual(64)
})
