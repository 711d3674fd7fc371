/** A real Redis server, stores on it and the timers of their calls, all by one clock that a test advances. */
import { setImmediate as turn } from 'node:timers/promises'
import { RedisStore, type RedisStoreOptions } from '../ts/index.js'
import type { TimerClock } from '../ts/platform/timer-clock.js'
import { timeOf } from '../ts/platform/waiting-time.js'
import { type OpenedRedis, openedRedis } from './redis/opened.js'
import { RedisServer } from './servers/redis-server.js'

const START_MS = Date.UTC(2026, 5, 1)

/** The time for an answer on a machine that is very busy. */
const TIMEOUT_MS = 60_000

/** The longest time that {@link DrivenTime.until} passes. */
const DAY_MS = 86_400_000

interface Timer {
  readonly run: () => void
  dueAt: number
  readonly everyMs: number | undefined
}

/**
 * The clock of a server and of stores. It moves only while no call is pending, so that neither the speed
 * of the machine nor that of the server changes an answer.
 */
export class DrivenTime implements TimerClock {
  #now = START_MS
  /** In the order in which they were set, or ran last. */
  readonly #timers = new Set<Timer>()
  readonly #stores: RedisStore[] = []
  readonly #server: RedisServer

  constructor(server: RedisServer) {
    this.#server = server
  }

  /** A store on the server, by this clock. */
  store(options: Partial<RedisStoreOptions> = {}): RedisStore {
    return this.drive(new RedisStore({ url: this.#server.url, commandTimeout: TIMEOUT_MS, ...options }))
  }

  /** Lets a store's limiters wait, and end what they hold themselves, by this clock. For those that are made later. */
  drive(store: RedisStore): RedisStore {
    const engine = Object.create(store.engine, { elapsedMs: { value: this.now } })
    Object.defineProperty(store, 'engine', { value: engine })
    Object.defineProperty(store, 'waitingTime', { value: timeOf(this) })
    this.#stores.push(store)
    return store
  }

  /** Epoch milliseconds. */
  readonly now = (): number => this.#now

  get timerCount(): number {
    return this.#timers.size
  }

  setTimeout(run: () => void, millis: number): object {
    return this.#add(run, millis, undefined)
  }

  setInterval(run: () => void, millis: number): object {
    return this.#add(run, millis, Math.max(1, millis))
  }

  clearTimeout(timer: unknown): void {
    this.#timers.delete(timer as Timer)
  }

  clearInterval(timer: unknown): void {
    this.clearTimeout(timer)
  }

  /** Waits until no call is pending, and nothing more happens at this time. */
  async idle(): Promise<void> {
    for (let turns = 0; turns < 4; turns++) {
      await turn()
      if (this.#stores.some((store) => store.status().pending > 0)) {
        turns = -1
      }
    }
  }

  /** Lets a number of milliseconds pass. Timers run in their order, each at its time. */
  async pass(millis: number): Promise<void> {
    const end = this.#now + millis
    await this.idle()
    for (let next = this.#next(); next !== undefined && next.dueAt <= end; next = this.#next()) {
      await this.#run(next)
    }
    this.#set(end)
    await this.idle()
  }

  /** Sets the clock ahead while calls may be pending, and runs no timers: the process stands still. */
  skip(millis: number): void {
    this.#set(this.#now + millis)
  }

  /** Resolves when a number of milliseconds has passed. */
  sleep(millis: number): Promise<void> {
    return new Promise((resolve) => this.setTimeout(resolve, millis))
  }

  /** Lets time pass, from timer to timer, until a promise is settled. */
  async until<T>(promise: Promise<T>): Promise<T> {
    const end = this.#now + DAY_MS
    let isSettled = false
    const onSettled = () => {
      isSettled = true
    }
    promise.then(onSettled, onSettled)
    await this.idle()
    for (let next = this.#next(); !isSettled && next !== undefined && next.dueAt <= end; next = this.#next()) {
      await this.#run(next)
    }
    return promise
  }

  #add(run: () => void, millis: number, everyMs: number | undefined): Timer {
    const timer = { run, dueAt: this.#now + Math.max(1, millis), everyMs }
    this.#timers.add(timer)
    return timer
  }

  #next(): Timer | undefined {
    let first: Timer | undefined
    for (const timer of this.#timers) {
      if (first === undefined || timer.dueAt < first.dueAt) {
        first = timer
      }
    }
    return first
  }

  async #run(timer: Timer): Promise<void> {
    this.#set(Math.max(this.#now, timer.dueAt))
    this.#timers.delete(timer)
    if (timer.everyMs !== undefined) {
      timer.dueAt += timer.everyMs
      this.#timers.add(timer)
    }
    timer.run()
    await this.idle()
  }

  #set(millis: number): void {
    this.#now = millis
    this.#server.setTime(Math.ceil(millis * 1_000))
  }
}

/** A server and a store on it, with their clock. */
export interface DrivenRedis extends OpenedRedis {
  readonly time: DrivenTime
}

const OPTIONS = { timeUs: START_MS * 1_000 }

/** Starts a server with such a clock. Requires Linux and a C compiler. */
export async function startDriven(): Promise<{ readonly server: RedisServer; readonly time: DrivenTime }> {
  const server = await RedisServer.start(OPTIONS)
  return { server, time: new DrivenTime(server) }
}

/** Registers the hooks that open and close a server and a store. Requires Linux and a C compiler. */
export function drivenRedis(): DrivenRedis {
  let time: DrivenTime
  const opened = openedRedis(OPTIONS, (server) => {
    time = new DrivenTime(server)
    return time.store()
  })
  return Object.create(opened, { time: { get: () => time } })
}
