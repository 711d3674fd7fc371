import { setTimeout as sleep } from 'node:timers/promises'
import { RedisStore, type RedisStoreOptions, type TollgateErrorCode } from 'tollgate'
import { RedisServer, type RedisServerOptions } from '../__tests__/servers/redis-server.js'
import { until } from '../__tests__/servers/until.js'
import { admissions, type Excess } from './admission.js'
import type { Pace, Row } from './fault.js'
import { Load, type LoadReport } from './load.js'
import { LoopDelay } from './loop-delay.js'
import { sockets, socketsSettle } from './resources.js'

/** The deadline of calls, in milliseconds. */
export const TIMEOUT_MS = 300

/** The deadline for faults that must not cause failures: a server on a busy machine may be slow. */
export const LONG_TIMEOUT_MS = 3_000

/** The allowed delay after a deadline, in milliseconds. */
export const GRACE_MS = 50

/** Calls succeed again within this time after the store's recovery, in milliseconds. */
const NORMAL_MS = 1_000

/**
 * A row waits up to this many times {@link NORMAL_MS}, so that it can report how late the recovery
 * was. If lateness breaks no promise, a row waits for as long as a busy machine may need.
 */
const [PATIENCE, UNTIMED_PATIENCE] = [4, 30]

/** The promises to callers under a fault. */
export interface Promised extends Partial<Excess> {
  /** The codes that calls may fail with. */
  readonly errors: readonly TollgateErrorCode[]
  /** At least one of these codes must occur, or the fault had no effect. Default: `errors`. */
  readonly mustSee?: readonly TollgateErrorCode[]
  /** The store loses its count with its state, so the charged units are unknown. */
  readonly losesCount?: boolean
}

/** The tools of a fault, for any kind of store. */
export interface LoadScene {
  readonly store: RedisStore
  readonly load: Load
  readonly delay: LoopDelay
  readonly pace: Pace
  /** Marks the recovery of the store: calls must succeed again soon. */
  healthy(): void
  /** Adds a note to the row. */
  note(text: string): void
  /** Records a broken promise of the fault, unless it was kept. */
  expect(isKept: boolean, promise: string): void
}

/** The tools of a fault of a single server. */
export interface Scene extends LoadScene {
  readonly server: RedisServer
}

/** The settings of a scene, for any kind of store. */
export interface LoadSetting {
  /** The options of the store. */
  readonly options: RedisStoreOptions
  /** Default: {@link TIMEOUT_MS}. */
  readonly timeoutMs?: number
  /** The store is unreachable from the start. */
  readonly isDownAtFirst?: boolean
  readonly promised: Promised | ((scene: LoadScene) => Promised | Promise<Promised>)
}

/** The settings of a scene with a single server. */
export interface Setting extends Omit<LoadSetting, 'options'> {
  readonly server?: RedisServerOptions
  /** Returns options of the store for the server. Default: its URL. */
  readonly store?: (server: RedisServer) => Partial<RedisStoreOptions> | Promise<Partial<RedisStoreOptions>>
}

/** Runs a load on a new server, injects a fault, and returns the row. */
export async function underLoad(pace: Pace, setting: Setting, inject: (scene: Scene) => Promise<void>): Promise<Row> {
  await using server = await RedisServer.start(setting.server)
  return await onStore(pace, server, setting, inject)
}

/** {@link underLoad}, on an existing server. */
export async function onStore(
  pace: Pace,
  server: RedisServer,
  setting: Setting,
  inject: (scene: Scene) => Promise<void>,
): Promise<Row> {
  const options = { url: server.url, ...(await setting.store?.(server)) }
  return await withLoad(pace, { ...setting, options }, (scene) => inject({ ...scene, server }))
}

/** Runs a load on a store, injects a fault, and returns the row. */
export async function withLoad(
  pace: Pace,
  setting: LoadSetting,
  inject: (scene: LoadScene) => Promise<void>,
): Promise<Row> {
  const [notes, broken]: [string[], string[]] = [[], []]
  const expect = (isKept: boolean, promise: string) => {
    if (!isKept) {
      broken.push(promise)
    }
  }
  const { timeoutMs = TIMEOUT_MS, isDownAtFirst = false } = setting
  const before = sockets()
  const store = new RedisStore({ commandTimeout: timeoutMs, ...setting.options })
  const delay = new LoopDelay()
  const load = new Load(store, delay, { timeoutMs })
  const healthy = () => load.mark()
  const scene: LoadScene = { store, load, delay, pace, healthy, note: (text) => notes.push(text), expect }
  if (!isDownAtFirst) {
    await until('the store is up', async () => store.status().state === 'up')
  }
  delay.start()
  load.start()
  await sleep(pace.calmMs)
  expect(isDownAtFirst || load.report().counted.told > 0, 'calls succeed before the fault')
  await inject(scene)
  await sleep(NORMAL_MS + pace.calmMs)
  // On a busy machine, calls may not have succeeded yet.
  for (let more = 0; more < (pace.isTimed ? PATIENCE : UNTIMED_PATIENCE) && load.normalMs === undefined; more++) {
    await sleep(NORMAL_MS)
  }
  await load.stop()
  delay.stop()
  const promised = typeof setting.promised === 'function' ? await setting.promised(scene) : setting.promised
  const { normalMs } = load
  const measured = { normalMs, loopDelayMs: delay.longestMs, timeoutMs, isTimed: pace.isTimed }
  const row = judged(load.report(), measured, promised, expect)
  if (!promised.losesCount) {
    const { told, unknown } = load.report().counted
    const charged = await load.charged().catch((error: Error) => error.message)
    const isOnce = typeof charged === 'number' && charged >= told && charged <= told + unknown
    expect(isOnce, `at most once: ${charged} units charged, ${told} told and ${unknown} unknown`)
  }
  await store.close()
  const left = (await socketsSettle(before)) - before
  expect(left <= 0, `${left} sockets left open`)
  return { ...row, notes, broken }
}

/** What {@link judged} needs besides the report of a load. In milliseconds. */
export interface Measured {
  /** {@link Load.normalMs} */
  readonly normalMs: number | undefined
  /** The longest stall of the event loop. */
  readonly loopDelayMs: number
  /** The deadline of calls. */
  readonly timeoutMs: number
  /** Whether lateness breaks a promise. */
  readonly isTimed: boolean
}

/** The checks of all rows. */
export function judged(
  report: LoadReport,
  { normalMs, loopDelayMs, timeoutMs, isTimed }: Measured,
  promised: Promised,
  expect: LoadScene['expect'],
): Omit<Row, 'notes' | 'broken'> {
  const { calls, longest, errors, lost } = report
  const admitted = admissions([report], { losses: 0, ...promised })
  expect(lost === 0, `${lost} calls never settled`)
  const { net, raw } = longest
  expect(!isTimed || net <= timeoutMs + GRACE_MS, `a call was pending for ${net.toFixed()} ms of ${timeoutMs}`)
  const codes = Object.keys(errors)
  const foreign = codes.filter((code) => !(promised.errors as readonly string[]).includes(code))
  expect(foreign.length === 0, `calls failed with ${foreign}`)
  const mustSee = promised.mustSee ?? promised.errors
  const isFelt = mustSee.length === 0 || mustSee.some((code) => codes.includes(code))
  expect(isFelt, `the fault was to be felt: ${mustSee}`)
  expect(normalMs !== undefined, 'calls succeed again')
  expect(
    !isTimed || (normalMs ?? 0) <= NORMAL_MS,
    `calls failed for ${normalMs?.toFixed()} ms after the store was well`,
  )
  for (const { limiter, key, wrong } of admitted) {
    expect(wrong === undefined, `${limiter}, ${key}: ${wrong}`)
  }
  return { calls, longestMs: net, longestRawMs: raw, loopDelayMs, errors, normalMs, admitted }
}
