import { setTimeout as sleep } from 'node:timers/promises'
import { RedisStore, type RedisStoreOptions, type TollgateErrorCode } from 'tollgate'
import { RedisServer, type RedisServerOptions } from '../__tests__/servers/redis-server.js'
import { until } from '../__tests__/servers/until.js'
import { admissions, type Excess } from './admission.js'
import type { Pace, Row } from './fault.js'
import { Load } from './load.js'
import { LoopDelay } from './loop-delay.js'
import { sockets, socketsSettle } from './resources.js'

/** What calls are given, in milliseconds. */
export const TIMEOUT_MS = 300

/** The same where nothing is to fail: on a busy machine the server itself may take longer than the other. */
export const LONG_TIMEOUT_MS = 3_000

/** What the limiter may add to a deadline. */
export const GRACE_MS = 50

/** Within this the calls are well after the store is, in milliseconds. */
const NORMAL_MS = 1_000

/** How many times that it is waited for: who is too late has broken a promise, and is to say by how much. */
const PATIENCE = 4

/** What callers are promised under a fault. */
export interface Promised extends Partial<Excess> {
  /** What calls may fail with. */
  readonly errors: readonly TollgateErrorCode[]
  /** One of these has to be seen, or the fault was none. Default: as `errors`. */
  readonly mustSee?: readonly TollgateErrorCode[]
  /** The store's own count is lost with its state: what was charged cannot be told. */
  readonly losesCount?: boolean
}

/** What a fault works with, wherever its store is. */
export interface LoadScene {
  readonly store: RedisStore
  readonly load: Load
  readonly delay: LoopDelay
  readonly pace: Pace
  /** The store is well from now on: the calls are to be soon. */
  healthy(): void
  /** Something to be told in the row. */
  note(text: string): void
  /** A promise of the fault's own that was broken, unless it was kept. */
  expect(isKept: boolean, promise: string): void
}

/** What a fault of a single server works with. */
export interface Scene extends LoadScene {
  readonly server: RedisServer
}

/** How a scene is set, wherever its store is. */
export interface LoadSetting {
  /** Where the store is, and how it is reached. */
  readonly options: RedisStoreOptions
  /** Default: {@link TIMEOUT_MS}. */
  readonly timeoutMs?: number
  /** It does not begin calmly: the store cannot be reached. */
  readonly isDownAtFirst?: boolean
  readonly promised: Promised | ((scene: LoadScene) => Promised | Promise<Promised>)
}

/** How a scene with a single server is set. */
export interface Setting extends Omit<LoadSetting, 'options'> {
  readonly server?: RedisServerOptions
  /** Options of the store, given the server. Default: its URL. */
  readonly store?: (server: RedisServer) => Partial<RedisStoreOptions> | Promise<Partial<RedisStoreOptions>>
}

/** Lets a load run on a server of its own, does something to it in the middle, and tells what came of it. */
export async function underLoad(pace: Pace, setting: Setting, inject: (scene: Scene) => Promise<void>): Promise<Row> {
  await using server = await RedisServer.start(setting.server)
  return await onStore(pace, server, setting, inject)
}

/** {@link underLoad}, on a server that is there. */
export async function onStore(
  pace: Pace,
  server: RedisServer,
  setting: Setting,
  inject: (scene: Scene) => Promise<void>,
): Promise<Row> {
  const options = { url: server.url, ...(await setting.store?.(server)) }
  return await withLoad(pace, { ...setting, options }, (scene) => inject({ ...scene, server }))
}

/** Lets a load run on a store, does something in the middle, and tells what came of it. */
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
  const store = new RedisStore({ commandTimeoutMs: timeoutMs, ...setting.options })
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
  // On a busy machine it may have had no time yet to be anything.
  for (let more = 0; more < PATIENCE && load.normalMs === undefined; more++) {
    await sleep(NORMAL_MS)
  }
  await load.stop()
  delay.stop()
  const promised = typeof setting.promised === 'function' ? await setting.promised(scene) : setting.promised
  const row = judged(load, delay, timeoutMs, promised, expect)
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

/** What every row is judged by. */
function judged(
  load: Load,
  delay: LoopDelay,
  timeoutMs: number,
  promised: Promised,
  expect: Scene['expect'],
): Omit<Row, 'notes' | 'broken'> {
  const { calls, longest, errors, lost } = load.report()
  const admitted = admissions([load.report()], { losses: 0, ...promised })
  expect(lost === 0, `${lost} calls never settled`)
  const { net, raw } = longest
  expect(net <= timeoutMs + GRACE_MS, `a call was pending for ${net.toFixed()} ms of ${timeoutMs}`)
  const codes = Object.keys(errors)
  const foreign = codes.filter((code) => !(promised.errors as readonly string[]).includes(code))
  expect(foreign.length === 0, `calls failed with ${foreign}`)
  const mustSee = promised.mustSee ?? promised.errors
  const isFelt = mustSee.length === 0 || mustSee.some((code) => codes.includes(code))
  expect(isFelt, `the fault was to be felt: ${mustSee}`)
  const { normalMs } = load
  expect(normalMs !== undefined, 'calls succeed again')
  expect((normalMs ?? 0) <= NORMAL_MS, `calls failed for ${normalMs?.toFixed()} ms after the store was well`)
  for (const { limiter, key, wrong } of admitted) {
    expect(wrong === undefined, `${limiter}, ${key}: ${wrong}`)
  }
  return { calls, longestMs: net, longestRawMs: raw, loopDelayMs: delay.longestMs, errors, normalMs, admitted }
}
