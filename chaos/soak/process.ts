// A process that uses the package until a message stops it: the one under observation, with all
// activities, or a peer, which shares its keys.
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { MemoryStore, RedisStore, type RedisStoreOptions } from 'tollgate'
import type { Admitted } from '../../__tests__/redis/laws.js'
import { type Activity, Bench } from './activities/activity.js'
import { algorithms, bans, changes, several, tiered } from './activities/decisions.js'
import { permits, reservations, waits } from './activities/holding.js'
import { briefLimiters, briefStores, overflow, workers } from './activities/lifetimes.js'
import { fallbacks, local } from './activities/modes.js'
import { middleware, outgoing } from './activities/services.js'
import { Calls } from './calls.js'
import { CHECKED_KEY, CHECKED_NAMES, type CheckedName, checkedLimiter, SHARE_LAW } from './checked.js'
import { randomOf } from './random.js'
import { type Report, Sampler } from './sample.js'

/** The task of the process. */
export interface Task {
  readonly role: 'observed' | 'peer'
  readonly seed: number
  /** The stores by target. */
  readonly stores: Readonly<Record<string, RedisStoreOptions>>
  /** Holds a megabyte and ten timers more about each second, so that the soak must fail. */
  readonly leaks: boolean
}

/** Longer than the default: a soak shares its machine. */
const TIMEOUT_MS = 2_000

/** The embedded store decides at once, if the event loop runs. */
const MEMORY_TIMEOUT_MS = 1_000

/** Reports, and samples among them. */
const [REPORT_MS, REPORTS_PER_SAMPLE] = [1_000, 5]

/** Stretches the pauses of all activities, so that the process takes a fraction of a core. */
const PACE = 1.5

/** The pause of each caller of a checked limiter. */
const CHECKED_PAUSE_MS = { observed: 50, peer: 100 } as const

/** A share is checked in overlapping stretches of its trace. */
const SHARE_UNITS = 100

/** The name of the embedded store that the worker threads share. */
const SHARED = 'soak'

class Soaking {
  readonly #task: Task
  readonly #calls = new Calls()
  readonly #sampler = new Sampler()
  #units: Record<string, Record<string, number[]>> = {}
  readonly #shares: Record<string, Admitted[]> = {}
  /** The leak, if it was asked for. */
  readonly #timers: NodeJS.Timeout[] = []
  readonly #memory: unknown[] = []
  #isRunning = true

  constructor(task: Task) {
    this.#task = task
    process.on('unhandledRejection', (reason) => {
      this.#calls.violate(`unhandled rejection: ${reason instanceof Error ? reason.stack : reason}`)
    })
    process.on('warning', ({ stack, message }) => this.#calls.violate(`warning: ${stack ?? message}`))
  }

  async run(): Promise<void> {
    const { role, seed, stores } = this.#task
    const random = randomOf(seed)
    const redis = Object.entries(stores).map(([target, options]) => {
      return {
        bench: new Bench(
          target,
          new RedisStore({ ...options, commandTimeout: TIMEOUT_MS }),
          TIMEOUT_MS,
          this.#calls,
          random,
        ),
        options,
      }
    })
    const memory = new Bench('memory', new MemoryStore({ name: SHARED }), MEMORY_TIMEOUT_MS, this.#calls, random)
    const activities: Activity[] = []
    const benches = [...(role === 'observed' ? [memory] : []), ...redis.map(({ bench }) => bench)]
    for (const bench of benches) {
      activities.push(...this.#checked(bench))
      activities.push(...(role === 'observed' ? await this.#all(bench, stores) : [...waits(bench), ...permits(bench)]))
    }
    const running = activities.map((activity) => this.#repeat(activity, random))
    const reporting = this.#report()
    await once(process, 'message')
    this.#isRunning = false
    await Promise.all(running)
    // Each limiter, then the stores.
    await Promise.all(activities.map(({ close }) => close?.()))
    await Promise.all(redis.map(({ bench: { store } }) => (store as RedisStore).close()))
    await reporting
    this.#calls.stop()
    this.#sampler.stop()
    process.disconnect()
  }

  async #all(bench: Bench, stores: Task['stores']): Promise<Activity[]> {
    const options = stores[bench.target]
    const own =
      options === undefined
        ? this.#embedded(bench, stores)
        : [...briefStores(bench, { ...options, commandTimeout: TIMEOUT_MS }), ...local(bench), ...fallbacks(bench)]
    return [
      ...own,
      ...[algorithms, several, changes, tiered, bans, waits, reservations, permits, briefLimiters, outgoing].flatMap(
        (make) => make(bench),
      ),
      ...(await middleware(bench)),
    ]
  }

  #embedded(bench: Bench, stores: Task['stores']): Activity[] {
    const [store] = Object.values(stores) as [RedisStoreOptions]
    const task = { store: { ...store, commandTimeout: TIMEOUT_MS }, name: SHARED, ms: 3_000 }
    const leak: Activity = { everyMs: 500, run: async () => this.#leak(), close: async () => this.#endLeak() }
    const all = [...overflow(bench), ...workers(bench, task, (units) => this.#add('memory', 'sliding', units))]
    return this.#task.leaks ? [...all, leak] : all
  }

  #leak(): void {
    for (let timer = 0; timer < 10; timer++) {
      this.#timers.push(setTimeout(() => {}, 86_400_000))
    }
    this.#memory.push(Array.from({ length: 100_000 }, Math.random))
  }

  /** Timers would keep the process alive. */
  #endLeak(): void {
    for (const timer of this.#timers) {
      clearTimeout(timer)
    }
  }

  /** A caller of each checked limiter. */
  #checked(bench: Bench): Activity[] {
    return CHECKED_NAMES.map((name) => {
      const limiter = checkedLimiter(name, bench.store)
      const kind = name === 'share' ? bench.safe('take (fallback)') : bench.kind(`take (${name})`)
      const take = async () => {
        const decision = await this.#calls.make(kind, () => limiter.take(CHECKED_KEY))
        if (decision?.allowed) {
          const at = Math.round(decision.at * 1_000)
          decision.source === 'fallback' ? this.#addShare(bench.target, at) : this.#add(bench.target, name, [at])
        }
      }
      return {
        everyMs: CHECKED_PAUSE_MS[this.#task.role],
        // Enough calls for a lease.
        run: () => Promise.all(Array.from({ length: name === 'leased' ? 3 : 1 }, take)),
        close: () => limiter.close(),
      }
    })
  }

  #add(target: string, name: CheckedName, units: readonly number[]): void {
    const own = this.#units[target] ?? {}
    this.#units[target] = { ...own, [name]: [...(own[name] ?? []), ...units] }
  }

  /** The embedded share of this process keeps its own law. */
  #addShare(target: string, at: number): void {
    const trace = [...(this.#shares[target] ?? []), { at, cost: 1 }]
    const isFull = trace.length >= 2 * SHARE_UNITS
    this.#shares[target] = isFull ? trace.slice(SHARE_UNITS) : trace
    const wrong = isFull ? SHARE_LAW(trace) : undefined
    if (wrong !== undefined) {
      this.#calls.violate(`share of ${target}: ${wrong}`)
    }
  }

  async #repeat({ everyMs, run }: Activity, random: () => number): Promise<void> {
    await sleep(everyMs * random())
    while (this.#isRunning) {
      await run()
      await sleep(PACE * everyMs * (0.5 + random()))
    }
  }

  async #report(): Promise<void> {
    for (let count = 1; this.#isRunning; count++) {
      await sleep(REPORT_MS)
      const isSampled = this.#task.role === 'observed' && count % REPORTS_PER_SAMPLE === 0
      const units = this.#units
      this.#units = {}
      const report: Report = {
        ...this.#calls.report(),
        units,
        ...(isSampled ? { sample: this.#sampler.take(this.#calls.durations()) } : {}),
      }
      process.send?.(report)
    }
  }
}

process.once('disconnect', () => process.exit(0))
new Soaking(JSON.parse(process.argv[2] as string) as Task).run().catch((error: unknown) => {
  console.error(error)
  process.exit(1)
})
