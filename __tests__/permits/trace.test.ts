/** The checker of traces finds an excess, and nothing else. */
import { findExcess, type HolderEvent } from './trace.js'

const start = (id: string, at: number, units = 1, key = 'a'): HolderEvent => ({ kind: 'start', id, key, units, at })
const end = (id: string, at: number): HolderEvent => ({ kind: 'end', id, at })
const trace = (...events: readonly HolderEvent[]) => ({ events, interruptions: [] })

test('units of several processes count together, for each key', () => {
  const traces = [trace(start('1', 0, 2), end('1', 10)), trace(start('2', 5, 2))]
  expect(findExcess(traces, 4)).toBeUndefined()
  expect(findExcess(traces, 3)).toMatchObject({ key: 'a', at: 5, units: 4 })
  expect(findExcess([trace(start('1', 0), start('2', 0, 1, 'b'))], 1)).toBeUndefined()
})

test('units may start when others end', () => {
  expect(findExcess([trace(start('1', 0), end('1', 10), start('2', 10))], 1)).toBeUndefined()
  expect(findExcess([trace(start('1', 0), end('1', 10), start('2', 9.999))], 1)).toEqual({
    key: 'a',
    at: 9.999,
    units: 2,
    holders: ['1: 1 since 0', '2: 1 since 9.999'],
  })
})

test('a process that was killed, or stopped for longer than its holders knew, holds nothing meanwhile', () => {
  const others = trace(start('2', 20))
  expect(findExcess([trace(start('1', 0)), others], 1)).toMatchObject({ key: 'a', at: 20, units: 2 })
  const killed = { events: [start('1', 0)], interruptions: [{ from: 15, to: Infinity }] }
  expect(findExcess([killed, others], 1)).toBeUndefined()
  const stopped = { events: [start('1', 0), end('1', 40)], interruptions: [{ from: 15, to: 30 }] }
  expect(findExcess([stopped, others], 1)).toBeUndefined()
  // It ended before the process was stopped; and another one began after it.
  const early = { events: [start('1', 0), end('1', 25)], interruptions: [{ from: 30, to: 40 }] }
  expect(findExcess([early, others], 1)).toMatchObject({ key: 'a', at: 20, units: 2 })
  const late = { events: [start('1', 18), end('1', 40)], interruptions: [{ from: 15, to: 16 }] }
  expect(findExcess([late, others], 1)).toMatchObject({ key: 'a', at: 20, units: 2 })
})
