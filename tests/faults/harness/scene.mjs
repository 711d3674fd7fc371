/** What a scenario acts on: a real Redis, two processes that share a limit, and what is between them. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { figures } from './checker.mjs'
import { now } from './clock.mjs'
import { FakeTime, newFolder, RedisServer, removeFolder } from './servers.mjs'
import { UpstashRest } from './upstash-rest.mjs'

const PROGRAM = fileURLToPath(new URL('./process.mjs', import.meta.url))

/** The limit of most scenarios, in units a day: no window ends during a run. */
export const LIMIT = 200
export const DAY_MS = 86_400_000

/** How long a scenario calls before its fault, and after it. */
const CALM_MS = 1_000
const AFTER_MS = 3_000

/** How often each process calls: a key whose units are used up, and one that stays below its limit. */
const EVERY_MS = { tight: 10, open: 125 }

/** A process that takes units for a contender. */
export class Caller {
  #child
  #next = 0
  #pending = new Map()

  static async start(name, options, env = {}) {
    const caller = new Caller()
    const words = [JSON.stringify({ name, options })]
    caller.#child = fork(PROGRAM, words, {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    let said = ''
    caller.#child.stderr.on('data', (bytes) => {
      said += bytes
    })
    const failed = once(caller.#child, 'exit').then(() => {
      throw new Error(`a process with ${name} ended: ${said}`)
    })
    failed.catch(() => {})
    await Promise.race([once(caller.#child, 'message'), failed])
    caller.#child.on('message', ({ id, result, error }) => {
      const { resolve, reject } = caller.#pending.get(id)
      caller.#pending.delete(id)
      if (error === undefined) resolve(result)
      else reject(new Error(error))
    })
    failed.catch((error) => {
      for (const { reject } of caller.#pending.values()) reject(error)
    })
    return caller
  }

  /** Asks for a job of process.mjs. */
  ask(job, words = {}) {
    const id = this.#next++
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject })
      this.#child.send({ id, job, ...words })
    })
  }

  async end() {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const ended = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await ended
  }
}

/**
 * Runs a scenario.
 *
 * @param {import('../contenders/all.mjs').Contender} contender
 * @param {object} setting
 * @param {number} [setting.limit]
 * @param {number} [setting.windowMs]
 * @param {readonly string[]} [setting.config] Lines of Redis's configuration.
 * @param {readonly number[]} [setting.aheadSeconds] By how much the clock of each process is ahead.
 * @param {{ open: (target: { port: number }) => Promise<Network>, isBehind?: boolean }} [setting.between] A
 * network before Redis. Behind: between Upstash's service and its Redis, not before the service.
 * @param {object} [setting.hold] Limits what is held at once, in place of a rate.
 * @param {(scene: Scene) => Promise<object | void>} run Returns facts for the checker.
 *
 * @typedef {{ port: number, stop(): Promise<void> }} Network
 * @typedef {object} Scene
 * @property {RedisServer} server
 * @property {Network} network
 * @property {[Caller, Caller]} callers
 * @property {(close: () => Promise<void>) => void} after What is closed after the processes have ended.
 */
export async function scene(contender, setting, run) {
  const { limit = LIMIT, windowMs = DAY_MS, config = [], aheadSeconds = [0, 0], between, hold } = setting
  const closing = []
  try {
    const server = await RedisServer.start({ config })
    closing.push(() => server.stop())
    let address = { port: server.port }
    const put = async (opening) => {
      address = await opening
      const added = address
      closing.push(() => added.stop())
      return added
    }
    // Upstash's service is a server, too. Its clients are cut off from the service, and the service
    // follows a failover of its Redis.
    const isService = contender.isService === true
    const { isBehind = false } = between ?? {}
    if (isService && !isBehind) await put(UpstashRest.start(address))
    const network = between && (await put(between.open(address)))
    if (isService && isBehind) await put(UpstashRest.start(address))
    const folder = newFolder('clocks')
    closing.push(() => removeFolder(folder))
    const callers = []
    for (const ahead of aheadSeconds) {
      const clock = ahead === 0 ? undefined : new FakeTime(folder)
      await clock?.set(ahead)
      const options = { port: address.port, limit, windowMs, processes: aheadSeconds.length, hold }
      const caller = await Caller.start(contender.name, options, clock?.environment)
      closing.push(() => caller.end())
      callers.push(caller)
    }
    const after = (close) => closing.unshift(close)
    const facts = (await run({ server, network, callers, after })) ?? {}
    if (facts.figures !== undefined) return facts.figures
    await Promise.all(callers.map((caller) => caller.ask('rest')))
    const remaining = await drained(callers, limit, facts.drains ?? [])
    const told = await Promise.all(callers.map((caller) => caller.ask('log')))
    const calls = told.flatMap(({ log }) => log)
    return {
      ...figures(calls, { limit, ...facts, remaining }),
      starvedSeconds: Math.round(Math.max(...told.map(({ starvedMs }) => starvedMs)) / 100) / 10,
      errors: merged(told.map(({ errors }) => errors)),
    }
  } finally {
    for (const close of closing.reverse()) await close()
  }
}

/** The units left of each key. A process that does not answer is no fault of the count. */
async function drained([caller], limit, keys) {
  const remaining = {}
  for (const key of keys) {
    const units = await Promise.race([caller.ask('drain', { key, most: limit }).catch(() => undefined), sleep(5_000)])
    if (units !== undefined) remaining[key] = units
  }
  return remaining
}

/**
 * Calls before, during and after a fault: one key whose units are used up before, and one that
 * stays below its limit.
 *
 * @param {Scene} scene
 * @param {() => Promise<unknown>} fault Returns when Redis serves again.
 */
export async function underLoad({ callers }, fault, everyMs = EVERY_MS) {
  if ('tight' in everyMs) await useUp(callers)
  await Promise.all(callers.map((caller) => caller.ask('load', { everyMs })))
  await sleep(CALM_MS)
  await fault()
  const healedMs = now()
  await sleep(AFTER_MS)
  return { healedMs, drains: ['open'] }
}

/** Uses up the key `tight`. After that each process is refused a few times. */
export async function useUp(callers) {
  for (const count of [LIMIT / 2, 5]) {
    await Promise.all(callers.map((caller) => caller.ask('calls', { key: 'tight', count })))
  }
}

function merged(counts) {
  const all = {}
  for (const [message, count] of counts.flatMap(Object.entries)) {
    // Each run has other ports.
    const text = message.replace(/\b1\d{4}\b/g, 'PORT')
    all[text] = (all[text] ?? 0) + count
  }
  return all
}
