/**
 * The order in which requests are replayed, and the timeline that counts them. Both have bounded
 * memory for any log.
 */
import { ReorderBuffer } from '../../ts/cli/simulate/log/reorder-buffer.js'
import { Timeline } from '../../ts/cli/simulate/timeline.js'

/** Deterministic whole numbers from a seed. */
function randomNumbers(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % below
  }
}

/** Replays times, and returns them in output order, each with its number. */
function ordered(times: readonly number[], window: number, chunk: number, most?: number) {
  const out: [time: number, number: number][] = []
  let furthestBack = 0
  const order = new ReorderBuffer(
    window,
    2,
    (time, cost, keys, start) => {
      expect(keys[start]).toBe(cost)
      expect(keys[start + 1]).toBe(cost * 2)
      furthestBack = Math.min(furthestBack, time - (out.at(-1)?.[0] ?? time))
      out.push([time, cost])
    },
    most,
    chunk,
  )
  for (const [number, time] of times.entries()) {
    order.add(time, number, Uint32Array.of(number, number * 2))
  }
  order.end()
  expect(furthestBack).toBe(0)
  return { order, out }
}

test.each([1, 2, 3, 4, 5])('random logs come out sorted (%i)', (seed) => {
  const random = randomNumbers(seed * 7_919)
  let now = 0
  const times = Array.from({ length: 5_000 }, () => {
    now += random(4)
    return Math.max(0, now - (random(3) === 0 ? random(120) : 0))
  })
  const window = 100
  let newest = 0
  const right = times.map((time, number) => {
    newest = Math.max(newest, time)
    return [Math.max(time, newest - window), number] as const
  })
  right.sort(([a], [b]) => a - b)
  const { order, out } = ordered(times, window, 1 + random(64))
  expect(out).toEqual(right)
  expect(order.late).toBe(right.filter(([time, number]) => time !== times[number]).length)
  expect(order.late).toBeGreaterThan(0)
})

test('a window of zero replays lines in their order, at times that never go back', () => {
  expect(ordered([5, 3, 9, 8, 10], 0, 4).out).toEqual([
    [5, 0],
    [5, 1],
    [9, 2],
    [9, 3],
    [10, 4],
  ])
})

test('more requests than the buffer holds are replayed oldest first, however wide the window is', () => {
  const times = Array.from({ length: 1_000 }, (_, number) => number)
  const { order, out } = ordered([...times, 999, 0], 1e9, 10, 100)
  expect(out.map(([time]) => time).slice(0, 800)).toEqual(times.slice(0, 800))
  expect(out).toHaveLength(1_002)
  expect(order.late).toBe(1)
})

test('a timeline loses no counts when its buckets grow, and has no more than a plot can show', () => {
  const random = randomNumbers(42)
  const timeline = new Timeline(2)
  const start = Date.UTC(2026, 0, 31, 10, 0, 7)
  const times: number[] = []
  let now = start
  for (let count = 0; count < 20_000; count++) {
    now += random(count < 10_000 ? 100 : 100_000)
    times.push(now)
    timeline.count(count % 2, now)
  }
  const stretches = (parity: number) => {
    const counts = Array<number>(timeline.length).fill(0)
    times.forEach((time, count) => {
      const interval = Math.floor((time - timeline.from) / timeline.step)
      counts[interval] = (counts[interval] as number) + (count % 2 === parity ? 1 : 0)
    })
    return counts
  }
  expect(timeline.length).toBeLessThanOrEqual(600)
  expect(timeline.length).toBeGreaterThan(100)
  expect(timeline.from).toBeLessThanOrEqual(start)
  expect([timeline.column(0), timeline.column(1)]).toEqual([stretches(0), stretches(1)])
})
