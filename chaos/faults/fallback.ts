/** `onStoreFailure` while the store is away: in four processes, and its speed. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type OnStoreFailure, RateLimiter, RedisStore, type TollgateErrorCode } from 'tollgate'
import { RedisServer } from '../../__tests__/servers/redis-server.js'
import { until } from '../../__tests__/servers/until.js'
import type { Admission } from '../admission.js'
import type { Fault, Pace, Row } from '../fault.js'
import type { Admitted, Guarded, GuardedReport } from '../programs/guarded.js'
import { GRACE_MS, TIMEOUT_MS } from '../scene.js'
import { BOUND_OF, LAW_OF, LAWS_OF, PROCESSES, type SHARED } from '../shared.js'
import { POLICIES } from '../traffic.js'

/** A mode of `onStoreFailure`, and its promises. */
interface Answered {
  readonly onStoreFailure: OnStoreFailure
  readonly errors: readonly TollgateErrorCode[]
  /** The source of decisions during the outage. */
  readonly source: 'none' | 'fallback' | undefined
  /** Whether calls are admitted during the outage. */
  readonly admits: boolean
}

/** Four processes make calls while the server is killed, stays away, and restarts with its data. */
async function outage(pace: Pace, { onStoreFailure, errors, source, admits }: Answered): Promise<Row> {
  const awayMs = pace.isShort ? 2_500 : 10_000
  const settleMs = pace.calmMs + 1_500
  await using server = await RedisServer.start({ config: ['appendonly yes', 'appendfsync always'] })
  const work: Guarded = { url: server.url, ms: 2 * settleMs + awayMs, onStoreFailure }
  let [away, back] = [0, 0]
  const reports = await together(work, async () => {
    await sleep(settleMs)
    await server.kill()
    away = Date.now()
    await sleep(awayMs)
    await server.begin()
    back = Date.now()
  })
  const broken: string[] = []
  const expect = (isKept: boolean, promise: string) => {
    if (!isKept) {
      broken.push(promise)
    }
  }
  const failed: Record<string, number> = {}
  for (const [code, count] of reports.flatMap((report) => Object.entries(report.errors))) {
    failed[code] = (failed[code] ?? 0) + count
  }
  const codes = Object.keys(failed)
  expect(
    codes.every((code) => (errors as readonly string[]).includes(code)),
    `calls failed with ${codes}`,
  )
  expect(errors.length === 0 || codes.length > 0, `the fault was to be felt: ${errors}`)
  const longestMs = Math.max(...reports.map(({ longest }) => longest.net))
  expect(longestMs <= TIMEOUT_MS + GRACE_MS, `a call was pending for ${longestMs.toFixed()} ms of ${TIMEOUT_MS}`)
  const normalMs = Math.max(...reports.map(({ without }) => lastOf(without, back) - back))
  expect(normalMs <= 1_000, `the store decides again, not ${normalMs.toFixed()} ms after it is back`)
  const instead = reports.reduce((sum, { sources }) => sum + (source === undefined ? 0 : sources[source]), 0)
  expect(source === undefined || instead > 0, `decisions with source: '${source}'`)
  const during = admittedOf(reports, 'rate', source).filter(([at]) => at > (away + 500) * 1_000 && at < back * 1_000)
  expect(during.length > 0 === admits, admits ? 'calls are admitted meanwhile' : 'no call is admitted meanwhile')
  const admitted = (['window', 'rate'] as const).map((limiter) => judged(reports, limiter, source))
  broken.push(...admitted.flatMap(({ limiter, wrong }) => (wrong === undefined ? [] : [`${limiter}: ${wrong}`])))
  const notes = [`${instead} calls answered by the fallback, ${during.length} units of the rate admitted meanwhile`]
  return {
    calls: reports.reduce((sum, { calls }) => sum + calls, 0),
    longestMs,
    longestRawMs: Math.max(...reports.map(({ longest }) => longest.raw)),
    loopDelayMs: Math.max(...reports.map(({ loopDelayMs }) => loopDelayMs)),
    errors: failed,
    normalMs,
    admitted,
    notes,
    broken,
  }
}

/** The store has recovered after it has decided all calls for this long, in milliseconds. */
const CALM_MS = 300

/**
 * The time of the last call that the store did not decide before its recovery. Later failures are
 * caused by a busy machine.
 */
function lastOf(without: readonly number[], back: number): number {
  const later = without.filter((at) => at > back).sort((a, b) => a - b)
  return later.reduce((last, at) => (at - last > CALM_MS ? last : at), back)
}

/** Runs the same work in four processes while a fault is injected. */
async function together(work: Guarded, inject: () => Promise<void>): Promise<GuardedReport[]> {
  const children = Array.from({ length: PROCESSES }, () => {
    const child = fork(join(__dirname, '../programs/guarded.js'), [JSON.stringify(work)])
    const ended = once(child, 'exit').then(([code, signal]) => {
      throw new Error(`a process ended with ${code ?? signal}`)
    })
    ended.catch(() => {})
    const message = () => Promise.race([ended, once(child, 'message').then(([told]) => told as unknown)])
    return { child, message }
  })
  try {
    await Promise.all(children.map(({ message }) => message()))
    const told = Promise.all(children.map(({ message }) => message()))
    told.catch(() => {})
    for (const { child } of children) {
      child.send('begin')
    }
    await inject()
    return (await told) as GuardedReport[]
  } finally {
    for (const { child } of children) {
      child.kill('SIGKILL')
    }
  }
}

function admittedOf(reports: readonly GuardedReport[], limiter: keyof typeof SHARED, source?: Admitted[1]): Admitted[] {
  const all = reports.flatMap(({ admitted }) => admitted[limiter])
  return all.filter((each) => source === undefined || each[1] === source).sort((a, b) => a[0] - b[0])
}

/**
 * Checks the laws of the store, of each share, and of all together. Uncounted calls have no law.
 */
function judged(
  reports: readonly GuardedReport[],
  limiter: keyof typeof SHARED,
  source: Answered['source'],
): Admission {
  const trace = (units: readonly Admitted[]) => units.map(([at]) => ({ at, cost: 1 }))
  const isShared = source === 'fallback'
  const parts = isShared ? 2 : 1
  const counted = admittedOf(reports, limiter).filter(([, by]) => by !== 'none')
  const found = [
    LAW_OF[limiter](1)(trace(admittedOf(reports, limiter, 'store'))),
    ...reports.map((one) => LAW_OF[limiter](1 / PROCESSES)(trace(admittedOf([one], limiter, 'fallback')))),
    LAWS_OF[limiter](parts)(trace(counted)),
  ]
  let [tail, most] = [0, 0]
  for (const [index, [at]] of counted.entries()) {
    while ((counted[tail]?.[0] ?? at) <= at - 1_000_000) {
      tail++
    }
    most = Math.max(most, index - tail + 1)
  }
  return {
    limiter,
    key: 'key',
    admitted: most,
    bound: BOUND_OF[limiter](parts),
    wrong: found.find((wrong) => wrong !== undefined),
  }
}

const AWAY = ['STORE_UNAVAILABLE', 'STORE_TIMEOUT'] as const

const MODES: readonly (Answered & Pick<Fault, 'name' | 'title'>)[] = [
  { name: 'fallback-throw', title: "'throw'", onStoreFailure: 'throw', errors: AWAY, source: undefined, admits: false },
  { name: 'fallback-allow', title: "'allow'", onStoreFailure: 'allow', errors: [], source: 'none', admits: true },
  { name: 'fallback-refuse', title: "'refuse'", onStoreFailure: 'refuse', errors: [], source: 'none', admits: false },
  {
    name: 'fallback-share',
    title: '{ embedded: { share: 0.25 } }',
    onStoreFailure: { embedded: { share: 1 / PROCESSES } },
    errors: [],
    source: 'fallback',
    admits: true,
  },
]

const outages: readonly Fault[] = MODES.map(({ name, title, ...answered }) => ({
  name,
  title: `four processes, the server away for 10 s (in short 2.5 s), onStoreFailure: ${title}`,
  isLong: name !== 'fallback-share',
  run: (pace) => outage(pace, answered),
}))

/** The least allowed ratio of the speed while the store is down to the embedded store's speed. */
const LEAST_SPEED = 0.2

const ROUNDS = 20
const CALLS = 5_000

const speed: Fault = {
  name: 'fallback-speed',
  title: 'calls while the store is known to be down, compared with the embedded store, in turns',
  isLong: true,
  run: async () => {
    await using server = await RedisServer.reserve()
    const store = new RedisStore({ url: server.url, commandTimeout: 50 })
    const { rate } = POLICIES
    const limiters: Readonly<Record<string, RateLimiter>> = {
      embedded: new RateLimiter(rate),
      allow: new RateLimiter(rate, { store, prefix: 'allow', onStoreFailure: 'allow' }),
      refuse: new RateLimiter(rate, { store, prefix: 'refuse', onStoreFailure: 'refuse' }),
      share: new RateLimiter(rate, { store, prefix: 'share', onStoreFailure: { embedded: { share: 0.5 } } }),
    }
    await until('the store is known to be down', async () => store.status().state === 'down')
    const seconds: Record<string, number[]> = {}
    for (let round = 0; round < ROUNDS; round++) {
      for (const [name, limiter] of Object.entries(limiters)) {
        const start = performance.now()
        for (let call = 0; call < CALLS; call++) {
          await limiter.take('key')
        }
        seconds[name] = [...(seconds[name] ?? []), (performance.now() - start) / 1_000]
      }
    }
    await store.close()
    const perSecond = (name: string) => {
      const sorted = [...(seconds[name] as number[])].sort((a, b) => a - b)
      return CALLS / (sorted[ROUNDS >> 1] as number)
    }
    const ratio = (name: string) => perSecond(name) / perSecond('embedded')
    const names = Object.keys(limiters)
    const slow = names.filter((name) => ratio(name) < LEAST_SPEED)
    return {
      ...{ calls: ROUNDS * CALLS * names.length, longestMs: 0, longestRawMs: 0, loopDelayMs: 0 },
      ...{ errors: {}, normalMs: 0, admitted: [] },
      notes: names.map((name) => `${name}: ${(perSecond(name) / 1e6).toFixed(2)} million calls a second`),
      broken: slow.map((name) => `${name} has ${ratio(name).toFixed(2)} of the embedded store's speed`),
    }
  },
}

export const FALLBACK_FAULTS: readonly Fault[] = [...outages, speed]
