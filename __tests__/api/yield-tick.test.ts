import { YieldTicks } from '../../ts/platform/yield-tick.js'

test('answers are given at once, but for one in 64, which lets the event loop turn', async () => {
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

test('who is refused again and again, and waits for nothing else, does not stop the process', async () => {
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
