/**
 * Draws the plots of docs/algorithms.md: what the real engine does with the same traffic under each policy.
 * `npm run docs:plots` makes them anew, in this folder; they are the same each time.
 */
import { writeFileSync } from 'node:fs'
import { MemoryStore, RateLimiter } from 'tollgate'
import { bars, lines } from './charts.mjs'
import { AT_THE_EDGE, POLICIES } from './policies.mjs'
import { BURSTY, WINDOW_EDGE } from './traffic.mjs'

/** A Monday, at midnight UTC: a boundary of every window that has a grid. */
const START = Date.UTC(2026, 0, 5)

/** Each call of the traffic, and what became of it. */
function run(policy, { times }) {
  let now = START
  const limiter = new RateLimiter(policy, { store: new MemoryStore({ clock: () => now }) })
  return times.map((millis) => {
    now = START + millis
    const { allowed, remaining } = limiter.takeSync('key')
    return { millis, allowed, remaining }
  })
}

/** What is left, seen ten times a second. */
async function remainingOver(policy, { times, seconds }) {
  let now = START
  const limiter = new RateLimiter(policy, { store: new MemoryStore({ clock: () => now }) })
  const points = []
  let next = 0
  for (let millis = 0; millis <= seconds * 1_000; millis += 100) {
    for (; next < times.length && times[next] <= millis; next++) {
      now = START + times[next]
      limiter.takeSync('key')
    }
    now = START + millis
    points.push([millis / 1_000, (await limiter.peek('key', 0)).remaining])
  }
  return points
}

/** How many calls were admitted in the ten seconds before, seen ten times a second. */
function admittedInTenSeconds(policy, traffic) {
  const admitted = run(policy, traffic).filter(({ allowed }) => allowed)
  const points = []
  for (let millis = 0; millis <= traffic.seconds * 1_000; millis += 100) {
    const recent = admitted.filter((call) => call.millis <= millis && call.millis > millis - 10_000)
    points.push([millis / 1_000, recent.length])
  }
  return points
}

function write(file, svg) {
  writeFileSync(new URL(`${file}.svg`, import.meta.url), svg)
  console.log(`docs/plots/${file}.svg`)
}

for (const { file, title, policy } of POLICIES) {
  const calls = run(policy, BURSTY)
  write(file, bars({ title, seconds: BURSTY.seconds, calls, remaining: await remainingOver(policy, BURSTY) }))
}
write(
  'window-edge',
  lines({
    title: 'Admitted in the last 10 s, with limits of 20 per 10 s',
    seconds: WINDOW_EDGE.seconds,
    limit: 20,
    series: AT_THE_EDGE.map((name) => {
      const { title, policy } = POLICIES.find(({ file }) => file === name)
      return { name: title.split(':')[0], points: admittedInTenSeconds(policy, WINDOW_EDGE) }
    }),
  }),
)
