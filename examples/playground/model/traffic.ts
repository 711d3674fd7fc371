/** Generates traffic by its shape. The same description gives the same calls everywhere. */
import { type FieldLeaf, type FieldTree, type FieldValues, type FormField, leavesOf } from './fields.js'
import { callsFromText } from './pasted.js'
import { type CallCosts, inOrder, MAX_CALLS, START_MS, type TraceCall, type Traffic, TrafficError } from './trace.js'
import { microsOf, positive, ruleError, unitsFrom, wholeFrom } from './typed.js'

/** The names of the shapes. */
export type ShapeName = 'steady' | 'bursts' | 'edge' | 'clients' | 'pasted'

/** A shape of traffic with its form. */
export interface TrafficShape {
  readonly title: string
  readonly description: string
  readonly leaves: readonly FieldLeaf[]
  readonly make: (values: FieldValues) => Traffic
}

// Numbers that several shapes share.
const LENGTH: FormField = { kind: 'duration', label: 'Length', initial: '60s', meaning: 'length' }
const COST: FormField = { kind: 'whole', label: 'Units per call', initial: '1', meaning: 'cost' }
const UNITS: FormField = {
  kind: 'name',
  label: 'Units of other meters',
  initial: '',
  hint: 'as in tokens=500',
  meaning: 'units',
}
const SEED: FormField = {
  kind: 'whole',
  label: 'Random seed',
  initial: '1',
  hint: 'changes the random times',
  meaning: 'seed',
}
const BURSTS: FormField = {
  kind: 'name',
  label: 'Extra bursts',
  initial: '',
  hint: 'as in 30@12s',
  meaning: 'bursts',
}
const SPACING: FormField = { kind: 'choice', label: 'Spacing', initial: 'even', choices: ['even', 'random'] }

const rate = (label: string, initial: string): FormField => ({ kind: 'number', label, initial })

function shape(
  title: string,
  description: string,
  tree: FieldTree,
  make: (values: FieldValues) => Traffic,
): TrafficShape {
  return { title, description, leaves: leavesOf(tree), make }
}

/** All shapes, in the order of the page. */
export const SHAPES: { readonly [Name in ShapeName]: TrafficShape } = {
  edge: shape(
    'Window’s edge',
    'One call opens a window. Then many calls come right before and right after each window’s end.',
    {
      window: { kind: 'duration', label: 'Window', initial: '10s' },
      calls: { kind: 'whole', label: 'Calls on each side', initial: '30' },
      within: { kind: 'duration', label: 'Spread over', initial: '900ms' },
      edges: { kind: 'whole', label: 'Window ends', initial: '2' },
      cost: COST,
      units: UNITS,
      bursts: BURSTS,
    },
    (values) => {
      const [windowUs, withinUs] = [microsOf('window', values), microsOf('within', values)]
      const [calls, edges] = [wholeFrom('calls', values), wholeFrom('edges', values)]
      checkCallCount(2 * calls * edges)
      const times = Array.from({ length: edges }, (_, index) => (index + 1) * windowUs).flatMap((edge) => [
        ...evenTimes(calls, edge - withinUs, edge),
        ...evenTimes(calls, edge, edge + withinUs),
      ])
      return traffic([0, ...times], (edges + 1) * windowUs, values)
    },
  ),
  bursts: shape(
    'Bursts',
    'Repeated bursts of calls, with a few calls in between.',
    {
      calls: { kind: 'whole', label: 'Calls per burst', initial: '30' },
      every: { kind: 'duration', label: 'A burst every', initial: '8s' },
      within: { kind: 'duration', label: 'Spread over', initial: '500ms' },
      between: rate('Other calls per second', '1'),
      length: LENGTH,
      cost: COST,
      units: UNITS,
      bursts: BURSTS,
    },
    (values) => {
      const lengthUs = microsOf('length', values)
      const everyUs = microsOf('every', values)
      const withinUs = microsOf('within', values)
      const between = positive('between', values, 0)
      const bursts = Math.ceil(lengthUs / everyUs)
      const calls = wholeFrom('calls', values)
      checkCallCount(bursts * calls + (between * lengthUs) / 1e6)
      const times = Array.from({ length: bursts }, (_, burst) => burst * everyUs).flatMap((from) =>
        evenTimes(calls, from, from + withinUs),
      )
      return traffic([...times, ...steadyTimes(between, lengthUs)], lengthUs, values)
    },
  ),
  steady: shape(
    'Steady',
    'A constant rate.',
    {
      rate: rate('Calls per second', '4'),
      spacing: SPACING,
      length: LENGTH,
      cost: COST,
      units: UNITS,
      seed: SEED,
      bursts: BURSTS,
    },
    (values) => {
      const lengthUs = microsOf('length', values)
      const perSecond = positive('rate', values)
      checkCallCount((perSecond * lengthUs) / 1e6)
      const random = randomFrom(wholeFrom('seed', values, 0))
      const { spacing } = values
      return traffic(
        spacing === 'random' ? atRandom(perSecond, lengthUs, random) : steadyTimes(perSecond, lengthUs),
        lengthUs,
        values,
      )
    },
  ),
  clients: shape(
    'Several clients',
    'Each client has its own key and calls at random times. The first is greedy.',
    {
      clients: { kind: 'whole', label: 'Clients', initial: '3' },
      rate: rate('Calls per second each', '1.5'),
      greed: rate('First client, times', '4'),
      length: LENGTH,
      cost: COST,
      units: UNITS,
      seed: SEED,
      bursts: BURSTS,
    },
    (values) => {
      const lengthUs = microsOf('length', values)
      const clients = wholeFrom('clients', values, 1, 100)
      const [perSecond, greed] = [positive('rate', values), positive('greed', values)]
      checkCallCount((perSecond * (clients - 1 + greed) * lengthUs) / 1e6)
      const random = randomFrom(wholeFrom('seed', values, 0))
      const costs = costsFrom(values)
      const calls = Array.from({ length: clients }, (_, index) =>
        atRandom(index === 0 ? perSecond * greed : perSecond, lengthUs, random).map(
          (at): TraceCall => ({ at, key: `client-${index + 1}`, ...costs }),
        ),
      ).flat()
      const extra = extraTimes(values, lengthUs).map((at): TraceCall => ({ at, key: 'client-1', ...costs }))
      return { calls: inOrder([...calls, ...extra]), startMs: START_MS, lengthUs }
    },
  ),
  pasted: shape(
    'Your own times',
    'One line for each call: seconds, Unix time or ISO 8601; then, optionally, a key, a cost and units of meters (tokens=500).',
    { times: { kind: 'lines', label: 'Times', initial: '0\n0.5\n0.5 ann\n1 bob 5\n9.9\n10\n10.1' } },
    ({ times = '' }) => callsFromText(times),
  ),
}

/** The size of an extra burst. */
export const BURST_CALLS = 30

/** The traffic's texts with one more burst. Without a time it comes where no burst is yet. */
export function withBurst(values: FieldValues, lengthUs: number, atUs = freeTime(values, lengthUs)): FieldValues {
  const { bursts = '' } = values
  const added = `${BURST_CALLS}@${Math.round(atUs / 1_000)}ms`.replace(/(\d+)000ms$/, '$1s').replace('@0ms', '@0')
  return { ...values, bursts: [bursts.trim(), added].filter((text) => text !== '').join(' ') }
}

/** The middle, then the quarters, then the eighths of the traffic. */
function freeTime({ bursts = '' }: FieldValues, lengthUs: number): number {
  const taken = bursts.split(/[\s,]+/).filter((text) => text !== '').length
  const level = Math.floor(Math.log2(taken + 1))
  const part = (2 * (taken + 1 - 2 ** level) + 1) / 2 ** (level + 1)
  return lengthUs * part
}

/** The names of the shapes, in the order of the page. */
export const SHAPE_NAMES = Object.keys(SHAPES) as readonly ShapeName[]

/** Whether a shape has this name. */
export function isShape(name: string): name is ShapeName {
  return Object.hasOwn(SHAPES, name)
}

/** The calls of one client. */
function traffic(times: readonly number[], lengthUs: number, values: FieldValues): Traffic {
  const costs = costsFrom(values)
  const within = [...times, ...extraTimes(values, lengthUs)].filter((at) => at >= 0 && at <= lengthUs)
  const calls = within.map((at): TraceCall => ({ at: Math.round(at), key: 'client-1', ...costs }))
  return { calls: inOrder(calls), startMs: START_MS, lengthUs }
}

/** The cost of each call, and its units of other meters. */
function costsFrom(values: FieldValues): CallCosts {
  const { units = '' } = values
  return { cost: wholeFrom('cost', values), units: unitsFrom('units', units) }
}

/** The times of the extra bursts: `30@12s` is thirty calls at once. */
function extraTimes(values: FieldValues, lengthUs: number): readonly number[] {
  const { bursts = '' } = values
  const all = bursts.split(/[\s,]+/).filter((text) => text !== '')
  const times = all.flatMap((text) => {
    const [, calls = '', at = ''] = /^(\d{1,6})@(.+)$/.exec(text) ?? []
    if (calls === '') {
      throw ruleError('bursts', 'must be calls and a time, such as 30@12s', text)
    }
    const us = at === '0' ? 0 : microsOf('bursts', { bursts: at })
    if (us > lengthUs) {
      throw ruleError('bursts', 'must be within the length of the traffic', text)
    }
    return new Array<number>(Number(calls)).fill(us)
  })
  checkCallCount(times.length)
  return times
}

function checkCallCount(calls: number): void {
  if (calls > MAX_CALLS) {
    throw new TrafficError(
      `traffic must be at most ${MAX_CALLS.toLocaleString('en')} calls, got ${Math.round(calls).toLocaleString('en')}`,
    )
  }
}

/** Evenly spaced times. */
function evenTimes(count: number, from: number, to: number): number[] {
  return Array.from({ length: count }, (_, number) => from + ((to - from) * number) / count)
}

function steadyTimes(perSecond: number, lengthUs: number): number[] {
  return evenTimes(Math.floor((perSecond * lengthUs) / 1e6), 0, lengthUs)
}

/** The times of independent callers: a Poisson process. */
function atRandom(perSecond: number, lengthUs: number, random: () => number): number[] {
  const times: number[] = []
  for (let at = 0; times.length <= MAX_CALLS; ) {
    at += (-Math.log(1 - random()) / perSecond) * 1e6
    if (at > lengthUs) {
      break
    }
    times.push(Math.round(at))
  }
  return times
}

/**
 * Random numbers from 0 to below 1, the same for the same seed on every machine: Mulberry32, by
 * Tommy Ettinger (public domain).
 */
function randomFrom(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
