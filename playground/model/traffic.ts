/** The traffic: who calls when, by its shape. The same description gives the same calls everywhere. */
import { type Field, type Leaf, leavesOf, type Tree, type Values } from './fields.js'
import { callsFromText } from './pasted.js'
import { type Call, inOrder, MOST_CALLS, START_MS, type Traffic, TrafficError } from './trace.js'
import { microsOf, positive, wholeFrom } from './typed.js'

/** The names of the shapes. */
export type ShapeName = 'steady' | 'bursts' | 'edge' | 'clients' | 'pasted'

/** A shape of traffic as it is shown. */
export interface Shape {
  readonly title: string
  readonly says: string
  readonly leaves: readonly Leaf[]
  readonly make: (values: Values) => Traffic
}

const LENGTH: Field = { kind: 'duration', label: 'For', initial: '60s' }
const COST: Field = { kind: 'whole', label: 'Units per call', initial: '1' }
const SEED: Field = { kind: 'whole', label: 'Seed', initial: '1', hint: 'another number, other calls' }
const SPACING: Field = { kind: 'choice', label: 'Spacing', initial: 'even', choices: ['even', 'random'] }

const rate = (label: string, initial: string): Field => ({ kind: 'number', label, initial })

function shape(title: string, says: string, tree: Tree, make: (values: Values) => Traffic): Shape {
  return { title, says, leaves: leavesOf(tree), make }
}

/** All shapes, in the order in which they are offered. */
export const SHAPES: { readonly [Name in ShapeName]: Shape } = {
  edge: shape(
    'Window’s edge',
    'A call opens a window; floods come right before and right after each of its ends.',
    {
      window: { kind: 'duration', label: 'Window', initial: '10s' },
      calls: { kind: 'whole', label: 'Calls per flood', initial: '30' },
      within: { kind: 'duration', label: 'Within', initial: '900ms' },
      edges: { kind: 'whole', label: 'Edges', initial: '2' },
      cost: COST,
    },
    (values) => {
      const [windowUs, withinUs] = [microsOf('window', values), microsOf('within', values)]
      const [calls, edges] = [wholeFrom('calls', values), wholeFrom('edges', values)]
      enough(2 * calls * edges)
      const times = Array.from({ length: edges }, (_, index) => (index + 1) * windowUs).flatMap((edge) => [
        ...evenly(calls, edge - withinUs, edge),
        ...evenly(calls, edge, edge + withinUs),
      ])
      return traffic([0, ...times], (edges + 1) * windowUs, values)
    },
  ),
  bursts: shape(
    'Bursts',
    'Many calls at once, again and again, and a few in between.',
    {
      calls: { kind: 'whole', label: 'Calls per burst', initial: '30' },
      every: { kind: 'duration', label: 'Every', initial: '8s' },
      within: { kind: 'duration', label: 'Within', initial: '500ms' },
      between: rate('Per second between', '1'),
      length: LENGTH,
      cost: COST,
    },
    (values) => {
      const lengthUs = microsOf('length', values)
      const everyUs = microsOf('every', values)
      const withinUs = microsOf('within', values)
      const between = positive('between', values, 0)
      const bursts = Math.ceil(lengthUs / everyUs)
      const calls = wholeFrom('calls', values)
      enough(bursts * calls + (between * lengthUs) / 1e6)
      const times = Array.from({ length: bursts }, (_, burst) => burst * everyUs).flatMap((from) =>
        evenly(calls, from, from + withinUs),
      )
      return traffic([...times, ...steadily(between, lengthUs)], lengthUs, values)
    },
  ),
  steady: shape(
    'Steady',
    'The same rate all the time.',
    { rate: rate('Calls per second', '4'), spacing: SPACING, length: LENGTH, cost: COST, seed: SEED },
    (values) => {
      const lengthUs = microsOf('length', values)
      const perSecond = positive('rate', values)
      enough((perSecond * lengthUs) / 1e6)
      const random = randomFrom(wholeFrom('seed', values, 0))
      const { spacing } = values
      return traffic(
        spacing === 'random' ? byChance(perSecond, lengthUs, random) : steadily(perSecond, lengthUs),
        lengthUs,
        values,
      )
    },
  ),
  clients: shape(
    'Several clients',
    'Each client has a key of its own, and calls by chance; the first is greedy.',
    {
      clients: { kind: 'whole', label: 'Clients', initial: '3' },
      rate: rate('Calls per second each', '1.5'),
      greed: rate('The first, times', '4'),
      length: LENGTH,
      cost: COST,
      seed: SEED,
    },
    (values) => {
      const lengthUs = microsOf('length', values)
      const clients = wholeFrom('clients', values, 1, 100)
      const [perSecond, greed] = [positive('rate', values), positive('greed', values)]
      enough((perSecond * (clients - 1 + greed) * lengthUs) / 1e6)
      const random = randomFrom(wholeFrom('seed', values, 0))
      const cost = wholeFrom('cost', values)
      const calls = Array.from({ length: clients }, (_, index) =>
        byChance(index === 0 ? perSecond * greed : perSecond, lengthUs, random).map(
          (at): Call => ({ at, key: `client-${index + 1}`, cost }),
        ),
      ).flat()
      return { calls: inOrder(calls), startMs: START_MS, lengthUs }
    },
  ),
  pasted: shape(
    'Your own times',
    'A line for each call: seconds, Unix time or ISO 8601; then, if need be, a key and a cost.',
    { times: { kind: 'lines', label: 'Times', initial: '0\n0.5\n0.5 ann\n1 bob 5\n9.9\n10\n10.1' } },
    ({ times = '' }) => callsFromText(times),
  ),
}

/** The names of the shapes, in the order in which they are offered. */
export const SHAPE_NAMES = Object.keys(SHAPES) as readonly ShapeName[]

/** Whether a shape has this name. */
export function isShape(name: string): name is ShapeName {
  return Object.hasOwn(SHAPES, name)
}

/** The calls of one caller. */
function traffic(times: readonly number[], lengthUs: number, values: Values): Traffic {
  const cost = wholeFrom('cost', values)
  const within = times.filter((at) => at >= 0 && at <= lengthUs)
  const calls = within.map((at): Call => ({ at: Math.round(at), key: 'client-1', cost }))
  return { calls: inOrder(calls), startMs: START_MS, lengthUs }
}

function enough(calls: number): void {
  if (calls > MOST_CALLS) {
    throw new TrafficError(
      `traffic must be at most ${MOST_CALLS.toLocaleString('en')} calls, got ${Math.round(calls).toLocaleString('en')}`,
    )
  }
}

/** Evenly spaced times. */
function evenly(count: number, from: number, to: number): number[] {
  return Array.from({ length: count }, (_, number) => from + ((to - from) * number) / count)
}

function steadily(perSecond: number, lengthUs: number): number[] {
  return evenly(Math.floor((perSecond * lengthUs) / 1e6), 0, lengthUs)
}

/** Times of callers who do not know of each other: a Poisson process. */
function byChance(perSecond: number, lengthUs: number, random: () => number): number[] {
  const times: number[] = []
  for (let at = 0; times.length <= MOST_CALLS; ) {
    at += (-Math.log(1 - random()) / perSecond) * 1e6
    if (at > lengthUs) {
      break
    }
    times.push(Math.round(at))
  }
  return times
}

/** Numbers from 0 to below 1, the same for the same seed on every machine: Mulberry32, by Tommy Ettinger (public domain). */
function randomFrom(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
