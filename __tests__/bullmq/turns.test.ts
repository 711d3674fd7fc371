/** How often jobs are picked, by a simulation of processes that share one group under `gcra`. */
import { Turns } from '../../ts/bullmq/turns.js'
import { Random } from '../random.js'
import { FakeJob } from './fake-job.js'

interface Scenario {
  readonly processes: number
  readonly jobs: number
  readonly stepMs: number
  readonly burst: number
}

/** A pick takes a millisecond of its process, and delayed jobs are picked up to 60 ms late, as BullMQ does. */
function simulate({ processes, jobs, stepMs, burst }: Scenario) {
  const random = new Random(7)
  const turns = Array.from({ length: processes }, () => new Turns())
  const start = 1_000_000
  const times = new Map<number, number>()
  const due = (time: number) => times.set(time, (times.get(time) ?? 0) + 1)
  for (let job = 0; job < jobs; job++) {
    due(start + Math.floor(job / processes))
  }
  let fullAt = 0
  let picks = 0
  let now = start
  for (let waiting = jobs; waiting > 0; now++) {
    for (let picked = times.get(now) ?? 0; picked > 0; picked--) {
      picks++
      const own = turns[random.whole(0, processes - 1)] as Turns
      const next = Math.max(fullAt, now) + stepMs
      const retryAfterMs = next - now - burst * stepMs
      if (retryAfterMs <= 0) {
        waiting--
        fullAt = next
        if (burst > 1 && next - now === stepMs) {
          own.clear('a')
        }
      } else {
        due(own.next('a', { retryAfterMs, stepMs }, now) + random.whole(1, 60))
      }
    }
    times.delete(now)
  }
  return { picks: picks / jobs, share: ((jobs - burst) * stepMs) / (now - start) }
}

test.each([
  { processes: 1, jobs: 5_000, stepMs: 20, burst: 50 },
  { processes: 1, jobs: 2_000, stepMs: 100, burst: 10 },
  { processes: 2, jobs: 5_000, stepMs: 20, burst: 50 },
  { processes: 3, jobs: 2_000, stepMs: 100, burst: 10 },
  { processes: 6, jobs: 5_000, stepMs: 20, burst: 50 },
])('a job is picked once, and at most once more for each process: $processes, burst $burst', (scenario) => {
  const { picks, share } = simulate(scenario)
  expect(picks).toBeLessThan(scenario.processes + 1.1)
  // The group uses its whole rate nevertheless.
  expect(share).toBeGreaterThan(0.98)
})

test('jobs get a turn each, not before they fit', () => {
  const turns = new Turns()
  const next = (retryAfterMs: number, now: number) => turns.next('a', { retryAfterMs, stepMs: 100 }, now)
  expect([next(50, 1_000), next(50, 1_000), next(40, 1_010)]).toEqual([1_050, 1_150, 1_250])
  expect(next(5_000, 1_020)).toBe(6_020)
  expect(turns.next('b', { retryAfterMs: 50, stepMs: 100 }, 1_000)).toBe(1_050)
  turns.clear('a')
  expect(next(50, 1_030)).toBe(1_080)
})

test('no turn is more than ten minutes after the time at which the job may fit', () => {
  const turns = new Turns()
  const ahead = Array.from(
    { length: 200 },
    () => turns.next('a', { retryAfterMs: 0, stepMs: 10_000 }, 1_000_000) - 1_000_000,
  )
  expect(Math.max(...ahead)).toBe(600_000)
  // They stay spread.
  expect(new Set(ahead).size).toBeGreaterThan(80)
})

describe('a released permit', () => {
  const LATER = Date.now() + 3_600_000

  test('promotes the first job whose turn is to come: another may be delayed because its attempt has failed', async () => {
    const turns = new Turns()
    const jobs = ['1', '2', '3'].map((id) => new FakeJob(id)) as [FakeJob, FakeJob, FakeJob]
    turns.park('a', jobs[0], Date.now())
    turns.park('a', jobs[1], LATER)
    turns.park('a', jobs[2], LATER)
    await turns.promote('a')
    expect(jobs.map(({ promotions }) => promotions)).toEqual([0, 1, 0])
  })

  test('promotes one job of each queue, also with the same id', async () => {
    const turns = new Turns()
    const jobs = ['bull:a', 'bull:b'].map((queueQualifiedName) =>
      Object.assign(new FakeJob('1'), { queueQualifiedName }),
    )
    for (const job of jobs) {
      turns.park('a', job, LATER)
    }
    await turns.promote('a')
    await turns.promote('a')
    expect(jobs.map(({ promotions }) => promotions)).toEqual([1, 1])
  })

  test('promotes jobs of a group that was refused lately, however many wait in others', async () => {
    const turns = new Turns()
    for (let group = 0; group < 20; group++) {
      for (let id = 0; id < 1_100; id++) {
        turns.park(`group ${group}`, new FakeJob(String(id)), LATER)
      }
    }
    const job = new FakeJob('last')
    turns.park('a', job, LATER)
    await turns.promote('a')
    expect(job.promotions).toBe(1)
  })
})
