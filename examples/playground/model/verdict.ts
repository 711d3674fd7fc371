/** Compares the admitted units with the units that the policy's numbers ask for. */
import type { LawResult } from './run.js'
import { count, span } from './words.js'

/** A comparison in words. */
export interface Verdict {
  /** Whether more units were admitted than the numbers say. */
  readonly isMore: boolean
  readonly sentence: string
}

/** The verdict on the bound that has the largest excess; without an excess, on the bound that came closest. */
export function verdictOf(laws: readonly LawResult[]): Verdict | undefined {
  const ranked = laws.toSorted((one, other) => excessOf(other) - excessOf(one))
  const [first] = ranked
  if (first === undefined) {
    return undefined
  }
  const { asked, worst, spanUs } = first
  const wanted = `You asked for ${count(asked)} in ${span(spanUs)}`
  if (worst.units <= asked) {
    return { isMore: false, sentence: `${wanted}; at most ${count(worst.units)} got through.` }
  }
  return { isMore: true, sentence: `${wanted}; ${count(worst.units)} got through, ${times(worst.units, asked)}.` }
}

/** The admitted units as a multiple of the asked ones. */
export function excessOf({ worst, asked }: Pick<LawResult, 'worst' | 'asked'>): number {
  return worst.units / Math.max(1, asked)
}

function times(units: number, asked: number): string {
  const ratio = units / Math.max(1, asked)
  if (ratio > 2) {
    return `${Number(ratio.toFixed(1))} times as many`
  }
  if (ratio === 2) {
    return 'twice as many'
  }
  return ratio >= 1.9 ? 'almost twice as many' : `${count(units - asked)} more`
}

/**
 * The policies that decided every call alike, by their positions: `[[0, 2]]`. A policy that differs
 * from all others is not in the list.
 */
export function equalsOf(decisions: readonly (Uint8Array | undefined)[]): readonly (readonly number[])[] {
  const groups: number[][] = []
  for (const [index, one] of decisions.entries()) {
    const group = groups.find(([first = 0]) => areEqual(decisions[first], one))
    if (group === undefined) {
      groups.push([index])
    } else {
      group.push(index)
    }
  }
  return groups.filter((group) => group.length > 1)
}

function areEqual(one: Uint8Array | undefined, other: Uint8Array | undefined): boolean {
  return one !== undefined && one.length === other?.length && one.every((decision, call) => decision === other[call])
}
