/** Where windows begin and end. */
import { setTimeout as sleep } from 'node:timers/promises'
import { scene } from '../harness/scene.mjs'

/** Bottleneck's intervals are multiples of five seconds. */
const WINDOW_MS = 5_000

/** So that no timer fires before the window begins. */
const MARGIN_MS = 20

/**
 * Waits until a window that is aligned to the clock has just begun, so that all contenders meet the
 * same part of their windows.
 */
async function untilWindowBegins(windowMs) {
  await sleep(windowMs - (Date.now() % windowMs) + MARGIN_MS)
}

/** @type {import('./all.mjs').Scenario} */
export const windowEdges = {
  name: 'window-edges',
  title: 'window edges',
  run(contender) {
    const limit = 20
    return scene(contender, { limit, windowMs: WINDOW_MS }, async ({ callers: [first, second] }) => {
      await untilWindowBegins(WINDOW_MS)
      const begin = performance.now()
      const until = (share) => sleep(begin + share * WINDOW_MS - performance.now())
      const burst = { key: 'edge', count: limit + 5, isParallel: true }
      await first.ask('calls', { key: 'edge' })
      // At the end of the first window, and right after its edge.
      await until(0.85)
      await first.ask('calls', burst)
      await until(1.05)
      await second.ask('calls', burst)
      // A rate refills meanwhile.
      await second.ask('load', { everyMs: { edge: 50 } })
      await until(1.9)
      return { windowMs: WINDOW_MS }
    })
  },
}

/** @type {import('./all.mjs').Scenario} */
export const subSecond = {
  name: 'sub-second',
  title: 'windows of 500 ms',
  needs: 'subSecond',
  run(contender) {
    const [limit, windowMs] = [5, 500]
    return scene(contender, { limit, windowMs }, async ({ callers }) => {
      // Each burst finds a whole limit, whatever the algorithm: two windows lie between them.
      for (const caller of [...callers, ...callers]) {
        await untilWindowBegins(windowMs)
        await caller.ask('calls', { key: 'short', count: 2 * limit, isParallel: true })
        await sleep(2 * windowMs)
      }
      return { windowMs }
    })
  },
}

/** @type {import('./all.mjs').Scenario} */
export const clockSkew = {
  name: 'clock-skew',
  title: 'the clock of a process is 10 s ahead',
  run(contender) {
    return scene(contender, { limit: 100, windowMs: WINDOW_MS, aheadSeconds: [0, 10] }, async ({ callers }) => {
      await untilWindowBegins(WINDOW_MS)
      for (const caller of [...callers, ...callers]) {
        await caller.ask('calls', { key: 'skewed', count: 40, isParallel: true })
      }
      return { windowMs: WINDOW_MS }
    })
  },
}
