/**
 * Random operations on all stores at once, by one clock that a test drives and by which keys in Redis expire: all stores
 * answer the same, to the last field, and what they tell is so.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { type Decision, TollgateError } from '../../ts/index.js'
import { Random } from '../wasm/trace.js'
import { CASES } from './cases.js'
import { checkLifetimes } from './lifetimes.js'
import { type Operation, Simulated } from './limiter.js'
import { World } from './world.js'

/** The limiters that are on the stores at a time. */
const LIMITERS = 3

/** The turns of a scene: then there are other limiters, on new stores. */
const TURNS = 120

/** The most operations of a turn, in which the clock stands still. */
const MOST_OPERATIONS = 24

/** In so many milliseconds the answers of one scene in eight come. */
const LATENCY_MS = 1

/** What a simulation has done. */
export interface Summary {
  readonly operations: number
  readonly scenes: number
  readonly seconds: number
  /** How often an operation was answered in which way. */
  readonly seen: ReadonlyMap<string, number>
}

/** What is simulated. */
export interface SimulationOptions {
  /** At least so many operations. */
  readonly operations: number
  readonly seed: number
  /** Whether WebAssembly's stores take part. */
  readonly hasWasm: boolean
  /** The number of the first scene: an error tells that of its own. */
  readonly first?: number
}

/** Simulates, and throws where stores differ or tell what is not so. */
export async function simulate({ operations, seed, hasWasm, first = 0 }: SimulationOptions): Promise<Summary> {
  const began = performance.now()
  const simulation = new Simulation(await World.start(), hasWasm)
  let scenes = 0
  try {
    while (simulation.operations < operations) {
      await simulation.scene(seed, first + scenes)
      scenes++
    }
  } finally {
    await simulation.stop()
  }
  const seconds = (performance.now() - began) / 1_000
  return { operations: simulation.operations, scenes, seconds, seen: simulation.seen }
}

/** An operation of a turn, and what its stores have answered. */
interface Asked {
  readonly of: Simulated
  readonly operation: Operation
  /** Whether what is asked behind it goes in a later turn of the event loop. */
  readonly pauses: boolean
}

class Simulation {
  operations = 0
  readonly seen = new Map<string, number>()
  readonly #world: World
  readonly #hasWasm: boolean
  #random = new Random(0)
  #limiters: Simulated[] = []
  /** Times at which something changes that was told of, in microseconds. */
  #edges: number[] = []
  /** What the scene has asked last, for messages. */
  #log: string[] = []

  constructor(world: World, hasWasm: boolean) {
    this.#world = world
    this.#hasWasm = hasWasm
  }

  stop(): Promise<void> {
    return this.#world.stop()
  }

  async scene(seed: number, number: number): Promise<void> {
    this.#random = new Random(seed + number)
    const random = this.#random
    await this.#world.furnish({ latencyMs: number % 8 === 7 ? LATENCY_MS : 0, hasWasm: this.#hasWasm })
    this.#limiters = Array.from({ length: LIMITERS }, (_, index) => {
      const limited = CASES[(number * LIMITERS + index) % CASES.length] as (typeof CASES)[number]
      return new Simulated(this.#world, limited, `s${number}l${index}`, random)
    })
    this.#edges = []
    this.#log = []
    try {
      for (let turn = 0; turn < TURNS; turn++) {
        await this.#turn()
      }
    } catch (error) {
      const names = this.#limiters.map((one) => one.case.name).join(', ')
      const { message } = error as Error
      throw new Error(`scene ${number} of ${names}, seed ${seed}: ${message}\n${this.#log.slice(-40).join('\n')}`)
    }
    await Promise.all(this.#limiters.map((one) => one.close()))
  }

  async #turn(): Promise<void> {
    const random = this.#random
    if (random.next() < 0.03) {
      await this.#world.server.command('SCRIPT', 'FLUSH')
    }
    if (random.next() < 0.01) {
      const one = random.one(this.#limiters)
      await one.deploy()
      this.#log.push(`deployed ${one.case.name}`)
    }
    const waiting = this.#limiters.filter((one) => one.case.waits === true)
    const waits = waiting.length > 0 && random.next() < 0.05
    const count = waits ? 1 : random.whole(1, MOST_OPERATIONS)
    const asked = Array.from({ length: count }, (): Asked => {
      const of = random.one(waits ? waiting : this.#limiters)
      return { of, operation: waits ? of.waitAndLeave() : of.operation(), pauses: random.next() < 0.08 }
    })
    const byStore = await Promise.all(this.#world.engines.map((_, store) => answersOf(asked, store)))
    for (const [index, { of, operation }] of asked.entries()) {
      this.#judge(
        of,
        operation,
        byStore.map((answers) => answers[index]),
      )
    }
    this.operations += count
    await this.#world.idle()
    const last = asked.at(-1) as Asked
    await this.#checkRetry(last.of, last.operation, byStore[0]?.at(-1))
    await checkLifetimes(this.#world, this.#limiters)
    this.#goOn()
  }

  /** All stores have answered the same. */
  #judge(of: Simulated, operation: Operation, outcomes: readonly unknown[]): void {
    const { name, details, key } = operation
    const { nowUs } = this.#world
    const [first] = outcomes
    this.#log.push(
      `${nowUs} ${of.case.name}: ${name} ${JSON.stringify(key)} ${JSON.stringify(details)}: ${JSON.stringify(first)}`,
    )
    for (const [store, outcome] of outcomes.entries()) {
      if (!isDeepStrictEqual(plain(outcome), plain(first))) {
        const other = this.#world.engines[store]?.name
        throw new Error(`${other} differs: ${JSON.stringify(outcome)} is not ${JSON.stringify(first)}`)
      }
    }
    operation.answered?.(outcomes, nowUs)
    const { code, status, retryAfterMs, resetAfterMs } = (first ?? {}) as Partial<Decision> & { readonly code?: string }
    const way = `${name} ${code ?? status ?? ''}`.trim()
    this.seen.set(way, (this.seen.get(way) ?? 0) + 1)
    for (const afterMs of [retryAfterMs, resetAfterMs]) {
      if (typeof afterMs === 'number' && afterMs > 0) {
        this.#edges = [...this.#edges.slice(-20), nowUs + afterMs * 1_000]
      }
    }
  }

  /** A refused call would be admitted when it was told to come again, and not a millisecond earlier. */
  async #checkRetry(of: Simulated, { name, key, details }: Operation, outcome: unknown): Promise<void> {
    const { allowed, retryAfterMs } = (outcome ?? {}) as Partial<Decision>
    const { cost } = details as { readonly cost?: number }
    if (name !== 'take' || allowed !== false || typeof retryAfterMs !== 'number' || cost === undefined) {
      return
    }
    const { nowUs } = this.#world
    const retryUs = nowUs + retryAfterMs * 1_000
    const memory = of.limiters[0] as Simulated['limiters'][number]
    const peekAt = (timeUs: number) =>
      this.#world.seenFrom(timeUs, () => memory.peek(key, cost)) as Promise<Pick<Decision, 'allowed'>>
    const [then, before] = await Promise.all([peekAt(retryUs), peekAt(retryUs - 1_000)])
    if (before.allowed) {
      throw new Error(`retryAfterMs: ${retryAfterMs} is a millisecond or more too late: ${JSON.stringify(before)}`)
    }
    // Once a key's own numbers have ended the limiter's decide; and a bucket may begin low again.
    if (!then.allowed && of.overriddenUntilUs <= nowUs && of.case.forgets !== true) {
      throw new Error(`retryAfterMs: ${retryAfterMs} is too early: ${JSON.stringify(then)}`)
    }
  }

  /** The clock goes on: a little, much, or to where something changes. */
  #goOn(): void {
    const random = this.#random
    const { horizonMs } = random.one(this.#limiters).case
    const { nowUs } = this.#world
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
      const most = kind < 0.98 ? horizonMs * 10_000 : kind < 0.99 ? horizonMs * 100_000 : 4 * 86_400_000_000
      return random.whole(0, Math.min(most, 4 * 86_400_000_000))
    }
    this.#world.goTo(nowUs + Math.max(0, forwardUs()))
  }
}

/** What a store answers: all is asked before anything is answered, but for pauses. */
async function answersOf(asked: readonly Asked[], store: number): Promise<unknown[]> {
  const answers: Promise<unknown>[] = []
  for (const { of, operation, pauses } of asked) {
    const limiter = of.limiters[store] as Simulated['limiters'][number]
    answers.push(outcomeOf(() => operation.ask(limiter, store)))
    if (pauses) {
      await sleep(0)
    }
  }
  return Promise.all(answers)
}

/** What became of a call: its value, or what is told of its failure. */
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

/** Without the functions of reservations. */
function plain(outcome: unknown): unknown {
  return typeof outcome === 'object' && outcome !== null && 'commit' in outcome
    ? { ...outcome, commit: undefined, cancel: undefined }
    : outcome
}
