/**
 * Random operations on all stores, with one driven clock that also expires keys in Redis: the
 * results of all stores are equal in every field, and their promises hold.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { type Decision, TollgateError } from '../../ts/index.js'
import { Random } from '../random.js'
import { CASES } from './cases.js'
import { checkDecisions } from './decisions.js'
import { Environment } from './environment.js'
import { checkLifetimes } from './lifetimes.js'
import { type Operation, SimulatedLimiter } from './limiter.js'

/** The number of limiters on the stores at a time. */
const LIMITERS = 3

/** The ticks of a scenario, after which there are new limiters on new stores. */
const TICKS = 120

/** The maximum operations of a tick, during which the clock stands still. */
const MAX_OPERATIONS = 24

/** The maximum reply latency, in milliseconds, in one of eight scenarios. */
const LATENCY_MS = 1

/** The statistics of a simulation. */
export interface Summary {
  readonly operations: number
  readonly scenarios: number
  readonly seconds: number
  /** The counts of each operation's results. */
  readonly seen: ReadonlyMap<string, number>
}

/** The configuration of a simulation. */
export interface SimulationOptions {
  /** The minimum number of operations. */
  readonly operations: number
  readonly seed: number
  /** Whether WebAssembly's stores take part. */
  readonly hasWasm: boolean
  /** The number of the first scenario. Errors contain the scenario's number. */
  readonly first?: number
}

/** Runs a simulation, and throws if results differ between stores or a promise does not hold. */
export async function simulate({ operations, seed, hasWasm, first = 0 }: SimulationOptions): Promise<Summary> {
  const began = performance.now()
  const simulation = new Simulation(await Environment.start(), hasWasm)
  let scenarios = 0
  try {
    while (simulation.operations < operations) {
      await simulation.scenario(seed, first + scenarios)
      scenarios++
    }
  } finally {
    await simulation.stop()
  }
  const seconds = (performance.now() - began) / 1_000
  return { operations: simulation.operations, scenarios, seconds, seen: simulation.seen }
}

/** An operation of a tick, and the results of its stores. */
interface TickOperation {
  readonly of: SimulatedLimiter
  readonly operation: Operation
  /** Whether later operations wait for a later tick of the event loop. */
  readonly pauses: boolean
}

class Simulation {
  operations = 0
  readonly seen = new Map<string, number>()
  readonly #environment: Environment
  readonly #hasWasm: boolean
  #random = new Random(0)
  #limiters: SimulatedLimiter[] = []
  /** The times of announced changes, in microseconds. */
  #edges: number[] = []
  /** The last operations of the scenario, for messages. */
  #log: string[] = []

  constructor(environment: Environment, hasWasm: boolean) {
    this.#environment = environment
    this.#hasWasm = hasWasm
  }

  stop(): Promise<void> {
    return this.#environment.stop()
  }

  async scenario(seed: number, number: number): Promise<void> {
    this.#random = new Random(seed + number)
    const random = this.#random
    await this.#environment.reset({ latencyMs: number % 8 === 7 ? LATENCY_MS : 0, hasWasm: this.#hasWasm })
    this.#limiters = Array.from({ length: LIMITERS }, (_, index) => {
      const limited = CASES[(number * LIMITERS + index) % CASES.length] as (typeof CASES)[number]
      return new SimulatedLimiter(this.#environment, limited, `s${number}l${index}`, random)
    })
    this.#edges = []
    this.#log = []
    try {
      for (let tick = 0; tick < TICKS; tick++) {
        await this.#tick()
      }
    } catch (error) {
      const names = this.#limiters.map((one) => one.case.name).join(', ')
      const { message } = error as Error
      throw new Error(`scenario ${number} of ${names}, seed ${seed}: ${message}\n${this.#log.slice(-60).join('\n')}`)
    }
    await Promise.all(this.#limiters.map((one) => one.close()))
  }

  async #tick(): Promise<void> {
    const random = this.#random
    if (random.next() < 0.03) {
      await this.#environment.server.command('SCRIPT', 'FLUSH')
    }
    if (random.next() < 0.01) {
      const one = random.one(this.#limiters)
      await one.deploy()
      this.#log.push(`deployed ${one.case.name}`)
    }
    const waiting = this.#limiters.filter((one) => one.case.waits === true)
    const waits = waiting.length > 0 && random.next() < 0.05
    const count = waits ? 1 : random.whole(1, MAX_OPERATIONS)
    const operations = Array.from({ length: count }, (): TickOperation => {
      const of = random.one(waits ? waiting : this.#limiters)
      return { of, operation: waits ? of.abortedWait() : of.operation(), pauses: random.next() < 0.08 }
    })
    const byStore = await Promise.all(this.#environment.stores.map((_, store) => answersOf(operations, store)))
    for (const [index, { of, operation }] of operations.entries()) {
      const outcomes = byStore.map((answers) => answers[index])
      this.#compare(of, operation, outcomes, operations.slice(index + 1))
    }
    this.operations += count
    await this.#environment.idle()
    const last = operations.at(-1) as TickOperation
    await this.#checkRetry(last.of, last.operation, byStore[0]?.at(-1))
    await checkLifetimes(this.#environment, this.#limiters)
    this.#advanceClock()
  }

  /**
   * The results of all stores are equal.
   *
   * @param later - The later operations of the tick, for the message.
   */
  #compare(
    of: SimulatedLimiter,
    operation: Operation,
    outcomes: readonly unknown[],
    later: readonly TickOperation[],
  ): void {
    const { name, details, key } = operation
    const { nowUs } = this.#environment
    const [first] = outcomes
    this.#log.push(
      `${nowUs} ${of.case.name}: ${name} ${JSON.stringify(key)} ${JSON.stringify(details)}: ${JSON.stringify(first)}`,
    )
    for (const [store, outcome] of outcomes.entries()) {
      if (!isDeepStrictEqual(comparable(name, outcome), comparable(name, first))) {
        const other = this.#environment.stores[store]?.name
        for (const { of, operation, pauses } of later) {
          const { name, key, details } = operation
          const text = `${name} ${JSON.stringify(key)} ${JSON.stringify(details)}`
          this.#log.push(`later in this tick${pauses ? ', with a pause' : ''}: ${of.case.name}: ${text}`)
        }
        throw new Error(`${other} differs: ${JSON.stringify(outcome)} is not ${JSON.stringify(first)}`)
      }
    }
    checkDecisions(first, { case: of.case, name, nowUs, hasBanRule: of.hasBanRule })
    operation.onResults?.(outcomes, nowUs)
    const { code, status, retryAfterMs, resetAfterMs } = (first ?? {}) as Partial<Decision> & { readonly code?: string }
    const result = `${name} ${code ?? status ?? ''}`.trim()
    this.seen.set(result, (this.seen.get(result) ?? 0) + 1)
    for (const afterMs of [retryAfterMs, resetAfterMs]) {
      if (typeof afterMs === 'number' && afterMs > 0) {
        this.#edges = [...this.#edges.slice(-20), nowUs + afterMs * 1_000]
      }
    }
  }

  /**
   * A refused call would be admitted at its retry time, and not a millisecond earlier. The retry time of
   * `acquire` may be an estimate, which is never later than that.
   */
  async #checkRetry(of: SimulatedLimiter, { name, key, details }: Operation, outcome: unknown): Promise<void> {
    const { allowed, status, retryAfterMs } = (outcome ?? {}) as Partial<Decision>
    const { cost, tier } = details as { readonly cost?: number; readonly tier?: string }
    if (
      (name !== 'take' && name !== 'acquire') ||
      allowed !== false ||
      typeof retryAfterMs !== 'number' ||
      cost === undefined
    ) {
      return
    }
    const { nowUs } = this.#environment
    const retryUs = nowUs + retryAfterMs * 1_000
    const memory = of.limiters[0] as SimulatedLimiter['limiters'][number]
    const peekAt = (timeUs: number) =>
      this.#environment.atMemoryTime(timeUs, () =>
        memory.peek(key, tier === undefined ? cost : { cost, tier }),
      ) as Promise<Pick<Decision, 'allowed' | 'resetAfterMs'>>
    const [then, before] = await Promise.all([peekAt(retryUs), peekAt(retryUs - 1_000)])
    if (before.allowed) {
      throw new Error(`retryAfterMs: ${retryAfterMs} is a millisecond or more too late: ${JSON.stringify(before)}`)
    }
    // After an override ends, the limiter's numbers apply; and a bucket may start low again, also
    // during a block.
    const isForgotten = of.case.forgets === true || (status === 'blocked' && then.resetAfterMs === 0)
    if (!then.allowed && name !== 'acquire' && of.overriddenUntilUs <= nowUs && !isForgotten) {
      throw new Error(`retryAfterMs: ${retryAfterMs} is too early: ${JSON.stringify(then)}`)
    }
  }

  /** Advances the clock: a little, far, or to an announced change. */
  #advanceClock(): void {
    const random = this.#random
    const { horizonMs } = random.one(this.#limiters).case
    const { nowUs } = this.#environment
    const kind = random.next()
    const forwardUs = () => {
      if (kind < 0.25) {
        return 0
      }
      if (kind < 0.5) {
        return random.whole(0, horizonMs * 20)
      }
      if (kind < 0.6) {
        return random.whole(0, horizonMs * 1_000)
      }
      if (kind < 0.95) {
        const edge = this.#edges.length > 0 ? random.one(this.#edges) : nowUs
        return edge - nowUs + random.one([-1_001, -1_000, -1, 0, 1, 999, 1_000, 1_001, 50_000])
      }
      const max = kind < 0.98 ? horizonMs * 10_000 : kind < 0.99 ? horizonMs * 100_000 : 4 * 86_400_000_000
      return random.whole(0, Math.min(max, 4 * 86_400_000_000))
    }
    this.#environment.goTo(nowUs + Math.max(0, forwardUs()))
  }
}

/** Calls a store: all operations are sent before any result arrives, except for pauses. */
async function answersOf(operations: readonly TickOperation[], store: number): Promise<unknown[]> {
  const answers: Promise<unknown>[] = []
  for (const { of, operation, pauses } of operations) {
    const limiter = of.limiters[store] as SimulatedLimiter['limiters'][number]
    answers.push(outcomeOf(() => operation.run(limiter, store)))
    if (pauses) {
      await sleep(0)
    }
  }
  return Promise.all(answers)
}

/** The outcome of a call: its value, or the description of its failure. */
async function outcomeOf(call: () => Promise<unknown>): Promise<unknown> {
  try {
    return await call()
  } catch (error) {
    if (!TollgateError.is(error)) {
      throw error
    }
    const { code, message, charged, results } = error
    return { code, message, charged, results }
  }
}

/**
 * A value without a reservation's methods, and without the retry times of a refusal of `acquire`: they
 * depend on the releases that were answered before it, which differ among the stores within a tick. `peek`
 * compares the exact times of the same limits.
 */
function comparable(operation: string, outcome: unknown): unknown {
  if (typeof outcome !== 'object' || outcome === null) {
    return outcome
  }
  if ('commit' in outcome) {
    return { ...outcome, id: undefined, commit: undefined, cancel: undefined, extend: undefined, renew: undefined }
  }
  if (operation === 'acquire' && 'allowed' in outcome && !outcome.allowed) {
    const { status, at, resetAt, resetAfterMs, source, policies } = outcome as Decision
    const exact = ({ limit, capacity, used, remaining, resetAfterMs }: Decision['policies'][string]) => {
      return { limit, capacity, used, remaining, resetAfterMs }
    }
    const limits = Object.entries(policies).map(([name, numbers]) => [name, exact(numbers)])
    return { status, at, resetAt, resetAfterMs, source, limits }
  }
  return outcome
}
