/** What holders of permits did, and the check that they never held more than the limit. */

/** An event of one holder. */
export type HolderEvent =
  | {
      readonly kind: 'start'
      readonly id: string
      readonly key: string
      readonly units: number
      /** Epoch milliseconds by the server's clock, which is that of the machine. */
      readonly at: number
    }
  | {
      /** The holder called `release`, or its signal was aborted. */
      readonly kind: 'end'
      readonly id: string
      readonly at: number
    }

/** A time in which a process cannot have held what it held before: it was killed or stopped. */
export interface Interruption {
  readonly from: number
  /** Infinity for a process that was killed. */
  readonly to: number
}

/** The events of one process, in their order. */
export interface ProcessTrace {
  readonly events: readonly HolderEvent[]
  readonly interruptions: readonly Interruption[]
}

/** More units were held than the limit allows. */
export interface Excess {
  readonly key: string
  readonly at: number
  readonly units: number
  /** The holders at that time. */
  readonly holders: readonly string[]
}

/** Units of a key that a holder got or, negative, gave back. */
interface Change {
  readonly id: string
  readonly key: string
  readonly at: number
  readonly units: number
}

/** The first time at which more than `limit` units of a key were held, if there is one. */
export function findExcess(traces: readonly ProcessTrace[], limit: number): Excess | undefined {
  const changes = traces.flatMap(changesOf)
  // Units that end and start at the same time are not held together.
  changes.sort((a, b) => a.at - b.at || a.units - b.units)
  const held = new Map<string, Map<string, Change>>()
  for (const change of changes) {
    const { id, key, at } = change
    const holders = held.get(key) ?? new Map<string, Change>()
    held.set(key, holders)
    if (change.units < 0) {
      holders.delete(id)
      continue
    }
    holders.set(id, change)
    const units = [...holders.values()].reduce((sum, holder) => sum + holder.units, 0)
    if (units > limit) {
      return { key, at, units, holders: [...holders.values()].map(textOf) }
    }
  }
  return undefined
}

function textOf({ id, units, at }: Change): string {
  return `${id}: ${units} since ${at}`
}

/** The units that start and end in a process. */
function changesOf({ events, interruptions }: ProcessTrace): Change[] {
  const ends = new Map(events.filter(({ kind }) => kind === 'end').map(({ id, at }) => [id, at]))
  return events.flatMap((event) => {
    if (event.kind === 'end') {
      return []
    }
    const { id, key, units, at } = event
    const interrupted = interruptions.find(({ from, to }) => from >= at && (ends.get(id) ?? Infinity) >= to)
    const end = Math.min(ends.get(id) ?? Infinity, interrupted?.from ?? Infinity)
    if (end <= at) {
      return []
    }
    return [
      { id, key, at, units },
      { id, key, at: end, units: -units },
    ]
  })
}
