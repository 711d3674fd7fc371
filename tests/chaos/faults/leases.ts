/** Leases in four processes, each with a worker thread: what ends or stops in the middle of a lease. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TollgateErrorCode } from 'tollgate'
import { FakeTime } from '../../../__tests__/servers/fake-time.js'
import { RedisServer } from '../../../__tests__/servers/redis-server.js'
import { newFolder, removeFolder } from '../../../__tests__/servers/run-folder.js'
import type { Fault, Pace, Row } from '../fault.js'
import { leasedAdmissions } from '../leased.js'
import type { Leasing, LeasingReport } from '../programs/leasing.js'
import { GRACE_MS, TIMEOUT_MS } from '../scene.js'

/** Seconds by which the clock of each process is ahead of this machine's. */
const SKEWS = [0, -3_600, 3_600, 7.5]

/** Longer than a lease. */
const STOPPED_MS = 500

/** A process with leases. */
interface LeasingProcess {
  begin(): void
  stop(): void
  resume(): void
  kill(): void
  /** `undefined` if it was killed. */
  readonly reports: Promise<readonly LeasingReport[] | undefined>
}

/** The effect of a fault on the server. */
interface ServerFault {
  readonly config: readonly string[]
  readonly losses: number
  readonly errors: readonly TollgateErrorCode[]
  /** @param atRest - Waits between two faults. */
  inject(server: RedisServer, atRest: () => Promise<void>): Promise<void>
}

async function leases(pace: Pace, { config, losses, errors, inject }: ServerFault): Promise<Row> {
  await using server = await RedisServer.start({ config: [...config] })
  const folder = newFolder('leases')
  const restMs = pace.isShort ? 500 : 1_500
  const ms = pace.calmMs + 6 * restMs + 3 * STOPPED_MS
  const files = SKEWS.map((_, index) => join(folder, `trace-${index}`))
  // All processes read the same monotonic clock. The server's clock is this machine's.
  const offsetUs = Date.now() * 1_000 - Number(process.hrtime.bigint() / 1_000n)
  const processes: LeasingProcess[] = []
  try {
    const started = SKEWS.map((skew, index) => {
      return start({ url: server.url, ms, file: files[index] as string }, folder, skew)
    })
    processes.push(...(await Promise.all(started)))
    for (const each of processes) {
      each.begin()
    }
    const [first, , third, fourth] = processes as [LeasingProcess, LeasingProcess, LeasingProcess, LeasingProcess]
    for (let time = 0; time < 3; time++) {
      await sleep(restMs)
      first.stop()
      await sleep(STOPPED_MS)
      first.resume()
    }
    await sleep(restMs)
    fourth.kill()
    await inject(server, () => sleep(restMs))
    const reports = (await Promise.all(processes.map(({ reports }) => reports))).flatMap((own) => own ?? [])
    const unstopped = (await Promise.all([processes[1]?.reports, third.reports])).flatMap((own) => own ?? [])
    const admitted = leasedAdmissions([...files, ...files.map((file) => `${file}-worker`)], offsetUs, losses)
    const broken = admitted.flatMap(({ limiter, wrong }) => (wrong === undefined ? [] : [`${limiter}: ${wrong}`]))
    const sum = (of: (report: LeasingReport) => number) => reports.reduce((total, report) => total + of(report), 0)
    const [leased, allowed] = [sum(({ sources }) => sources.lease ?? 0), sum((report) => report.allowed)]
    if (leased < allowed / 4) {
      broken.push(`only ${leased} of ${allowed} admitted calls used a lease`)
    }
    const failed: Record<string, number> = {}
    for (const [code, count] of reports.flatMap((report) => Object.entries(report.errors))) {
      failed[code] = (failed[code] ?? 0) + count
    }
    const unexpected = Object.keys(failed).filter((code) => !(errors as readonly string[]).includes(code))
    if (unexpected.length > 0) {
      broken.push(`calls failed with ${unexpected}`)
    }
    const longestMs = Math.max(...unstopped.map(({ longest }) => longest.net))
    if (longestMs > 2 * TIMEOUT_MS + GRACE_MS) {
      broken.push(`a call was pending for ${longestMs.toFixed()} ms`)
    }
    return {
      calls: sum(({ calls }) => calls),
      longestMs,
      longestRawMs: Math.max(...reports.map(({ longest }) => longest.raw)),
      loopDelayMs: Math.max(...unstopped.map(({ loopDelayMs }) => loopDelayMs)),
      errors: failed,
      normalMs: 0,
      admitted,
      notes: [
        `${leased} of ${allowed} admitted calls used a lease, and ${sum(({ sources }) => sources.cache ?? 0)} a cached refusal`,
      ],
      broken,
    }
  } finally {
    for (const each of processes) {
      each.kill()
    }
    await removeFolder(folder)
  }
}

/** Starts a process with its own clock; resolves when it is connected. */
async function start(task: Leasing, folder: string, skew: number): Promise<LeasingProcess> {
  const clock = new FakeTime(newFolder('clock'))
  await clock.set(skew)
  const child = fork(join(__dirname, '../programs/leasing.js'), [JSON.stringify(task)], {
    cwd: folder,
    env: skew === 0 ? process.env : { ...process.env, ...clock.environment },
  })
  const exit = once(child, 'exit').then(([code, signal]) => {
    if (signal !== 'SIGKILL') {
      throw new Error(`a process with leases ended with ${code ?? signal}`)
    }
    return undefined
  })
  exit.catch(() => {})
  const message = <T>() => Promise.race([exit, once(child, 'message').then(([value]) => value as T)])
  await message()
  const reports = message<readonly LeasingReport[]>()
  reports.catch(() => {})
  return {
    begin: () => child.send('begin'),
    stop: () => child.kill('SIGSTOP'),
    resume: () => child.kill('SIGCONT'),
    kill: () => child.kill('SIGKILL'),
    reports,
  }
}

const ENDING = 'four processes with leases and wrong clocks: one is stopped three times, one is killed'

const kept: Fault = {
  name: 'leases',
  title: `${ENDING}, and the server is killed and restarts with its data`,
  run: (pace) =>
    leases(pace, {
      config: ['appendonly yes', 'appendfsync always'],
      losses: 0,
      errors: ['STORE_UNAVAILABLE', 'STORE_TIMEOUT'],
      async inject(server, atRest) {
        await server.kill()
        await atRest()
        await server.begin()
        await atRest()
      },
    }),
}

const lost: Fault = {
  name: 'leases-lost',
  title: `${ENDING}, and the server loses all counts`,
  isLong: true,
  run: (pace) =>
    leases(pace, {
      config: [],
      losses: 1,
      errors: [],
      async inject(server, atRest) {
        await server.command('FLUSHALL')
        await atRest()
      },
    }),
}

export const LEASE_FAULTS: readonly Fault[] = [kept, lost]
