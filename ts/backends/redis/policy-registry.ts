import { optionInWords } from '../../input/policy-text.js'
import { timers } from '../../platform/timers.js'
import type { Compound } from '../../policies/policy-set.js'
import type { StoreWarning } from './health.js'

/** How long Redis keeps what was noted. */
export const NOTED_MS = 5_400_000

/** So long after its first answered call are a prefix's policies noted: what ends before pays nothing for it. */
const FIRST_MS = 1_000

/** How often they are noted again, while there are calls. */
const AGAIN_MS = 3_600_000

/** The limiters of a prefix: all have the same policies. */
interface Open {
  readonly text: string
  /** When they are to be noted; `undefined` before any call has been decided. */
  dueAt: number | undefined
}

/**
 * Notes in Redis by which policies the calls on prefixes are decided, and tells of others that are noted under the same
 * prefix. It does so when calls have been answered, without timers, and nobody waits for it.
 */
export class NotedPolicies {
  readonly #send: (prefix: string, text: string) => void
  readonly #warn: (warning: StoreWarning) => void
  readonly #open = new Map<string, Open>()
  /** What has been told: each once. */
  readonly #told = new Set<string>()
  /** When the next of them are to be noted. */
  #nextAt = Number.POSITIVE_INFINITY

  /** @param send - Has a text noted; {@link heard} is told all that are, unless that fails. */
  constructor(send: (prefix: string, text: string) => void, warn: (warning: StoreWarning) => void) {
    this.#send = send
    this.#warn = warn
  }

  /** A prefix has been opened. */
  open(prefix: string, compound: Compound): void {
    this.#open.set(prefix, { text: policiesInWords(compound), dueAt: undefined })
  }

  /** A prefix is not open any more. */
  close(prefix: string): void {
    this.#open.delete(prefix)
  }

  /** A call that the policies decide has been answered for the first time. */
  used(prefix: string): void {
    const open = this.#open.get(prefix)
    if (open !== undefined && open.dueAt === undefined) {
      open.dueAt = timers.now() + FIRST_MS
      this.#nextAt = Math.min(this.#nextAt, open.dueAt)
    }
  }

  /** Calls have been answered. */
  answered(): void {
    const now = timers.now()
    if (now < this.#nextAt) {
      return
    }
    this.#nextAt = Number.POSITIVE_INFINITY
    for (const [prefix, open] of this.#open) {
      if (open.dueAt !== undefined && now >= open.dueAt) {
        open.dueAt = now + AGAIN_MS
        this.#send(prefix, open.text)
      }
      this.#nextAt = Math.min(this.#nextAt, open.dueAt ?? this.#nextAt)
    }
  }

  /** Takes all that is noted under a prefix. */
  heard(prefix: string, texts: readonly string[]): void {
    const ours = this.#open.get(prefix)?.text
    for (const theirs of texts) {
      const told = JSON.stringify([prefix, ours, theirs])
      if (ours !== undefined && theirs !== ours && !this.#told.has(told)) {
        this.#told.add(told)
        this.#warn(warningOf(prefix, ours, theirs))
      }
    }
  }
}

/** A limiter's policies in words, in the order of their names. */
export function policiesInWords({ policies }: Compound): string {
  const all = policies.map(({ name, policy }) => {
    const { algorithm, ...options } = policy
    const words = Object.entries(options).flatMap(([option, value]) => optionInWords(option, value))
    return `${name}: ${[algorithm, ...words.sort()].join(' ')}`
  })
  return all.sort().join('; ')
}

function warningOf(prefix: string, ours: string, theirs: string): StoreWarning {
  const [own, others] = [ours, theirs].map(statesOf) as [string[], string[]]
  const shared = own.filter((state) => others.includes(state))
  const sharesStates = shared.length > 0
  const what = sharesStates
    ? `both count on the same states (${shared.join(', ')}), as after a change of numbers`
    : 'neither sees what the other counts, as after a change of algorithm: a key starts as never used'
  const mend = 'expected while a change is rolled out; otherwise give one of them another prefix'
  return {
    code: 'POLICIES_DIFFER',
    message: `prefix ${prefix} is used here with "${ours}", and elsewhere within 90 minutes with "${theirs}": ${what}; ${mend}`,
    prefix,
    ours,
    theirs,
    sharesStates,
  }
}

/** Which states policies count on: the names, algorithms and layouts, without the numbers. */
function statesOf(text: string): string[] {
  return text.split('; ').map((policy) => {
    const [name, algorithm, ...options] = policy.split(' ')
    const layout = options.filter((option) => /^(layout=hash|refillMode=interval)$/.test(option))
    return [name, algorithm, ...layout].join(' ')
  })
}
