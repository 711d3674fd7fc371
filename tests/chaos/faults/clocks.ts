/** Wrong clocks: the server's, which decides, and the clients', which must not affect decisions. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { FakeTime } from '../../../__tests__/servers/fake-time.js'
import { RedisServer } from '../../../__tests__/servers/redis-server.js'
import { newFolder, removeFolder } from '../../../__tests__/servers/run-folder.js'
import { admissions } from '../admission.js'
import type { Fault, Pace, Row } from '../fault.js'
import type { Unit } from '../load.js'
import type { Told } from '../programs/loaded.js'
import { GRACE_MS, LONG_TIMEOUT_MS, type Scene, underLoad } from '../scene.js'
import { HORIZON_MS } from '../traffic.js'

const YEAR = 365 * 86_400

/** The least time between two steps of a clock: longer than the horizon of any decision. */
const STAY_MS = 1.5 * HORIZON_MS

/** Steps the server's clock. Each step is in seconds ahead of this machine's clock. */
function serverSteps(pace: Pace, steps: readonly number[]): Promise<Row> {
  const promised = {
    errors: [],
    // The limiter that counts has a window of a day, which ends when the clock steps ahead by a
    // year.
    losesCount: true,
    losses: steps.filter((ahead, index) => ahead > (steps[index - 1] ?? 0)).length,
    timeOf: (unit: Unit) => trueTime(steps, unit),
  }
  return underLoad(pace, { server: { hasOwnClock: true }, timeoutMs: LONG_TIMEOUT_MS, promised }, async (scene) => {
    for (const ahead of steps) {
      await scene.server.stepClock(ahead)
      await admittedAgain(scene, ahead)
      await sleep(STAY_MS)
    }
    scene.healthy()
  })
}

/** Checks that calls are admitted again within the policy's horizon and a second after a step. */
async function admittedAgain({ load, note, expect }: Scene, ahead: number): Promise<void> {
  const most = HORIZON_MS + 1_000
  const late = sleep(10 * most, Number.POSITIVE_INFINITY, { ref: false })
  const all = Promise.all([load.untilAdmitted('window'), load.untilAdmitted('rate')]).then((each) => Math.max(...each))
  const ms = await Promise.race([all, late])
  note(`${ahead < 0 ? '' : '+'}${ahead === YEAR ? '1 year' : `${ahead} s`}: admitted again after ${ms.toFixed()} ms`)
  expect(ms <= most, `after a step to ${ahead} s calls are admitted again within ${most} ms`)
}

/**
 * The time by this machine's clock. The step is unknown, so this takes the step that gives the
 * time closest to the answer.
 */
function trueTime(steps: readonly number[], { at, heard }: Unit): number {
  const times = [0, ...steps].map((ahead) => at - ahead * 1e6)
  return times.reduce((best, time) => (Math.abs(time - heard) < Math.abs(best - heard) ? time : best))
}

const serverSeconds: Fault = {
  name: 'server-clock-10s',
  title: "the server's clock steps by 10 s, back, by -10 s, and back",
  run: (pace) => serverSteps(pace, [10, 0, -10, 0]),
}

const serverYear: Fault = {
  name: 'server-clock-1y',
  title: "the server's clock steps by a year, and back",
  isLong: true,
  run: (pace) => serverSteps(pace, [YEAR, 0]),
}

/**
 * The clock of each client at the start, and its steps, in seconds ahead of this machine's clock.
 */
const CLIENTS: readonly { readonly ahead: number; readonly steps: readonly number[] }[] = [
  { ahead: 0, steps: [3_600, -3_600, 0] },
  { ahead: -3_600, steps: [] },
  { ahead: 3_600, steps: [] },
  { ahead: 7.5, steps: [-0.9, 0.4] },
]

const clients: Fault = {
  name: 'client-clocks',
  title: 'four processes with clocks skewed by up to an hour, two of which step while they run',
  run: async (pace) => {
    await using server = await RedisServer.start()
    // Long enough to observe each step of a clock on a busy machine.
    const ms = Math.max(2 * pace.calmMs + pace.faultMs, 4_000)
    const reports = await Promise.all(CLIENTS.map((client) => oneClient(server, client, ms)))
    const [broken, notes]: [string[], string[]] = [[], []]
    for (const [index, { load, skews }] of reports.entries()) {
      const { ahead, steps } = CLIENTS[index] as (typeof CLIENTS)[number]
      const seen = skews.map((skew) => Math.round(skew * 2) / 2)
      notes.push(`a clock ${[...new Set(seen)].join(', ')} s ahead`)
      for (const expected of [ahead, ...steps]) {
        if (!skews.some((skew) => Math.abs(skew - expected) < 0.4)) {
          broken.push(`a client's clock is to be ${expected} s ahead`)
        }
      }
      if (load.lost > 0) {
        broken.push(`${load.lost} calls never settled`)
      }
    }
    const loads = reports.map(({ load }) => load)
    const admitted = admissions(loads, { losses: 0 })
    broken.push(...admitted.flatMap(({ limiter, key, wrong }) => (wrong ? [`${limiter}, ${key}: ${wrong}`] : [])))
    const errors = loads.flatMap((load) => Object.keys(load.errors))
    broken.push(...new Set(errors.map((code) => `calls failed with ${code}`)))
    const longestMs = Math.max(...loads.map(({ longest }) => longest.net))
    if (longestMs > LONG_TIMEOUT_MS + GRACE_MS) {
      broken.push(`a call was pending for ${longestMs.toFixed()} ms of ${LONG_TIMEOUT_MS}`)
    }
    return {
      calls: loads.reduce((sum, { calls }) => sum + calls, 0),
      longestMs,
      longestRawMs: Math.max(...loads.map(({ longest }) => longest.raw)),
      loopDelayMs: Math.max(...reports.map(({ loopDelayMs }) => loopDelayMs)),
      errors: {},
      normalMs: 0,
      admitted,
      notes,
      broken,
    }
  },
}

/** Runs a load in a process with its own clock, and returns its report. */
async function oneClient(server: RedisServer, client: (typeof CLIENTS)[number], ms: number): Promise<Told> {
  const folder = newFolder('client')
  const clock = new FakeTime(folder)
  await clock.set(client.ahead)
  const child = fork(join(__dirname, '../programs/loaded.js'), [JSON.stringify({ url: server.url, ms })], {
    env: { ...process.env, ...clock.environment },
  })
  const ended = once(child, 'exit').then(([code, signal]) => {
    throw new Error(`a process of the load ended with ${code ?? signal}`)
  })
  ended.catch(() => {})
  const message = () => Promise.race([ended, once(child, 'message').then(([told]) => told as unknown)])
  try {
    await message()
    const told = message()
    child.send('begin')
    for (const ahead of client.steps) {
      await sleep(ms / (client.steps.length + 1))
      await clock.set(ahead)
    }
    return (await told) as Told
  } finally {
    child.kill('SIGKILL')
    await removeFolder(folder)
  }
}

export const CLOCK_FAULTS: readonly Fault[] = [serverSeconds, serverYear, clients]
