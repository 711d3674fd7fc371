/**
 * Estimates: what reservations of different sizes leave of a budget of tokens, in virtual time. Decisions are those of
 * the embedded store with a clock of the simulation.
 */
import { calendarWindow, MemoryStore, RateLimiter } from 'tollgate'
import { UsageEstimator } from 'tollgate/estimate'
import { Random } from '../../simulation/calls/random.mjs'
import { TRAFFIC } from './estimate-traffic.mjs'
import { printColumns } from './report.mjs'

export const title = 'Estimates: a budget of 30,000 tokens a minute, and reservations of different sizes'

export const peers = []

/** The rounds are seeds. */
export const paces = { full: { rounds: 5, minutes: 300 }, quick: { rounds: 1, minutes: 100 } }

/** Tokens of a customer. */
export const LIMIT = 30_000
const WINDOW_MS = 60_000

/** Programs make several calls at a time: up to this number. */
const MOST_AT_ONCE = 8

/** The time until the first token of an answer, and between two of them. */
const FIRST_MS = 500
const TOKEN_MS = 20

/** The tokens of an extension. */
const PART = 200

const KEY = 'customer:7'
const MODEL = 'model:large'

/** How many calls the mean of a traffic is computed from. */
const SAMPLE = 50_000

/**
 * Each way gives the units that a call reserves for its output. `make` gets the mean output of the traffic, which a
 * program does not know in advance.
 */
const estimated = (quantile) => () => {
  const estimates = new UsageEstimator({ quantile })
  return {
    of: ({ input, declared }) => estimates.estimate(MODEL, declared, { known: input, atMost: LIMIT }) - input,
    record: ({ output }) => estimates.record(MODEL, output),
  }
}

/** The quantile of the used share of the declared maximum, in millionths. */
const estimatedShare = (quantile) => () => {
  const estimates = new UsageEstimator({ quantile })
  const WHOLE = 1_000_000
  return {
    of: ({ declared }) => Math.max(1, Math.ceil((estimates.estimate(MODEL, WHOLE) / WHOLE) * declared)),
    record: ({ output, declared }) => estimates.record(MODEL, Math.ceil((output / declared) * WHOLE)),
  }
}

const fixed = (of) => (mean) => ({ of: (call) => Math.min(call.declared, of(call, mean)), record() {} })

export const WAYS = [
  { name: 'usage known in advance (bound)', make: fixed(({ output }) => output) },
  { name: 'declared maximum', make: fixed(({ declared }) => declared) },
  { name: 'mean usage', make: fixed((_, mean) => mean) },
  { name: 'quantile 0.5', make: estimated(0.5) },
  { name: 'quantile 0.9', make: estimated(0.9) },
  { name: 'quantile 0.99', make: estimated(0.99) },
  { name: 'mean usage, extend', make: fixed((_, mean) => mean), isExtended: true },
  { name: 'quantile 0.5, extend', make: estimated(0.5), isExtended: true },
  { name: 'quantile 0.9, extend', make: estimated(0.9), isExtended: true },
  { name: 'quantile 0.9 of the share', make: estimatedShare(0.9) },
]

/** The arrivals of calls, the same for all ways: they use the budget fully if each were admitted. */
function arrivalsOf(next, seed, minutes) {
  const random = new Random(seed)
  const end = minutes * WINDOW_MS
  const arrivals = []
  for (let at = 0; at < end; ) {
    const count = random.whole(1, MOST_AT_ONCE + 1)
    const calls = Array.from({ length: count }, () => next(random, at / end))
    arrivals.push(...calls.map((call) => ({ at: Math.floor(at), ...call })))
    const tokens = calls.reduce((sum, { input, output }) => sum + input + output, 0)
    at += -Math.log(1 - random.next()) * (tokens / LIMIT) * WINDOW_MS
  }
  return arrivals
}

/** One way with one traffic: counts of calls, and the tokens that each window was charged in the end. */
class Simulation {
  #now = 0
  #open = new Set()
  #used = new Map()
  #refusing = new Set()
  #limiter = new RateLimiter(calendarWindow({ limit: LIMIT, every: '1m' }), {
    store: new MemoryStore({ clock: () => this.#now }),
  })
  #way
  #isExtended
  counts = { calls: 0, admitted: 0, needless: 0, cut: 0, extensions: 0 }

  constructor({ make, isExtended = false }, mean) {
    this.#way = make(mean)
    this.#isExtended = isExtended
  }

  async run(arrivals) {
    for (const arrival of arrivals) {
      await this.#runUntil(arrival.at)
      this.#now = arrival.at
      await this.#start(arrival)
    }
    await this.#runUntil(Infinity)
    await this.#limiter.close()
  }

  get figures() {
    const windows = [...this.#used.values()]
    const over = windows.map((used) => Math.max(0, used - LIMIT))
    const refusing = [...this.#refusing].map((window) => Math.min(LIMIT, this.#used.get(window) ?? 0))
    const sum = (numbers) => numbers.reduce((total, number) => total + number, 0)
    return {
      ...this.counts,
      // Of the windows in which a call was refused; those above the limit count as full.
      usedWhileRefused: refusing.length === 0 ? 1 : sum(refusing) / (refusing.length * LIMIT),
      overspent: sum(over) / (windows.length * LIMIT),
      mostOverspent: Math.max(0, ...over) / LIMIT,
    }
  }

  get #window() {
    return Math.floor(this.#now / WINDOW_MS)
  }

  #add(window, tokens) {
    this.#used.set(window, (this.#used.get(window) ?? 0) + tokens)
  }

  async #start(call) {
    this.counts.calls++
    const guess = this.#way.of(call)
    const reservation = await this.#limiter.reserve(KEY, call.input + guess, { ttl: '1h' })
    if (!reservation.allowed) {
      this.#refusing.add(this.#window)
      this.counts.needless += this.#wouldFit(call) ? 1 : 0
      return
    }
    this.counts.admitted++
    const charges = [{ window: this.#window, units: call.input + guess }]
    this.#open.add(this.#scheduled({ call, reservation, charges, reserved: guess, began: this.#now }))
  }

  /** Whether the call would fit if the usage of all running calls were known. */
  #wouldFit(call) {
    const window = this.#window
    const running = [...this.#open].filter(({ charges }) => charges[0].window === window)
    const tokens = running.reduce((sum, one) => sum + one.call.input + one.call.output, this.#used.get(window) ?? 0)
    return tokens + call.input + call.output <= LIMIT
  }

  /** Sets when a call ends, or needs more than it has reserved. */
  #scheduled(running) {
    const { call, reserved, began } = running
    const lacks = this.#isExtended && reserved < call.output
    running.at = began + FIRST_MS + TOKEN_MS * (lacks ? reserved : call.output)
    running.lacks = lacks
    return running
  }

  async #runUntil(time) {
    for (;;) {
      let first
      for (const one of this.#open) {
        if (one.at <= time && (first === undefined || one.at < first.at)) first = one
      }
      if (first === undefined) return
      this.#now = first.at
      await (first.lacks ? this.#extend(first) : this.#end(first, first.call.output))
    }
  }

  async #extend(running) {
    const units = Math.min(PART, running.call.declared - running.reserved)
    this.counts.extensions++
    if ((await running.reservation.extend(units)).extended) {
      running.reserved += units
      running.charges.push({ window: this.#window, units })
      this.#scheduled(running)
    } else {
      this.counts.cut++
      this.#refusing.add(this.#window)
      await this.#end(running, running.reserved)
    }
  }

  /** Settles a call. Its usage belongs to the windows of its charges, in order, and the excess to the window of now. */
  async #end(running, output) {
    const { call, reservation, charges } = running
    this.#open.delete(running)
    let left = call.input + output
    for (const { window, units } of charges) {
      const part = Math.min(left, units)
      this.#add(window, part)
      left -= part
    }
    if (left > 0) this.#add(this.#window, left)
    if (output === call.output) this.#way.record(call)
    await reservation.commit(call.input + output)
  }
}

function meanOf(next) {
  const random = new Random(1)
  let sum = 0
  for (let index = 0; index < SAMPLE; index++) sum += next(random, index / SAMPLE).output
  return Math.ceil(sum / SAMPLE)
}

/** @param {{ rounds: number, minutes: number }} pace */
export async function run({ rounds, minutes }) {
  const results = []
  for (const [traffic, next] of Object.entries(TRAFFIC)) {
    const mean = meanOf(next)
    const arrivals = Array.from({ length: rounds }, (_, round) => arrivalsOf(next, 100 + round, minutes))
    for (const way of WAYS) {
      const all = []
      for (const calls of arrivals) {
        const simulation = new Simulation(way, mean)
        await simulation.run(calls)
        all.push(simulation.figures)
      }
      const sum = (figure) => all.reduce((total, one) => total + one[figure], 0)
      const calls = sum('calls')
      results.push({
        traffic,
        way: way.name,
        calls,
        admitted: sum('admitted') / calls,
        usedWhileRefused: sum('usedWhileRefused') / rounds,
        needless: sum('needless') / calls,
        overspent: sum('overspent') / rounds,
        mostOverspent: Math.max(...all.map(({ mostOverspent }) => mostOverspent)),
        cut: sum('cut') / calls,
        extensions: sum('extensions') / sum('admitted'),
      })
    }
  }
  return { results }
}

/** The columns of the tables: a head, and a cell's text. */
const percent = (figure) => (row) => `${(100 * row[figure]).toFixed(1)} %`

export const COLUMNS = [
  ['answered', percent('admitted')],
  ['refused, but would have fit', percent('needless')],
  ['used while refusing', percent('usedWhileRefused')],
  ['overspent', percent('overspent')],
  ['most in a minute', percent('mostOverspent')],
  ['cut short', percent('cut')],
  ['extensions per call', (row) => row.extensions.toFixed(2)],
]

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ results }) {
  for (const traffic of Object.keys(TRAFFIC)) {
    printColumns(
      [traffic, ...COLUMNS.map(([head]) => head)],
      results.filter((row) => row.traffic === traffic).map((row) => [row.way, ...COLUMNS.map(([, text]) => text(row))]),
    )
  }
}
