/** Several processes with wrong clocks share one limit, and only Redis's clock decides. */
import { describeHotKeys } from '../hot-keys.js'
import { atRate, inAnySpan, inEachGridWindow, inEachOpenedWindow, inIntervals } from '../laws.js'

// Long enough for two of the longest windows. `processes.deep.test.ts` takes longer.
describeHotKeys(1_000)

/** A check that cannot fail proves nothing. */
test('the laws detect one excess unit, and no excess in a correct trace', () => {
  const trace = (...millis: readonly number[]) => millis.map((at) => ({ at: at * 1_000, cost: 1 }))
  expect(inAnySpan(2, 10)(trace(0, 1, 10, 11, 20))).toBeUndefined()
  expect(inAnySpan(2, 10)(trace(0, 1, 9.999))).toMatch('3 of 2 units')
  expect(inAnySpan(2, 10)([{ at: 0, cost: 3 }])).toMatch('3 of 2 units')
  expect(atRate(2, 1, 10)(trace(0, 0, 10, 25, 30))).toBeUndefined()
  expect(atRate(2, 1, 10)(trace(50, 50, 59.999))).toMatch('0.0001 units above')
  expect(inIntervals(2, 1, 10)(trace(5, 5, 5, 15))).toBeUndefined()
  expect(inIntervals(2, 1, 10)(trace(5, 5, 5, 14.999))).toMatch('4 of 3 units')
  expect(inEachGridWindow(2, 10)(trace(8, 9, 10, 11))).toBeUndefined()
  expect(inEachGridWindow(2, 10)(trace(1, 8, 9.999))).toMatch('3 of 2 units')
  expect(inEachOpenedWindow(2, 10)(trace(5, 14, 15, 24, 25))).toBeUndefined()
  expect(inEachOpenedWindow(2, 10)(trace(5.5, 14, 15.999))).toMatch('3 of 2 units')
})
