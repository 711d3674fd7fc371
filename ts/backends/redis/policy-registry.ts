import { TollgateError } from '../../api/error.js'
import { optionTexts, shortDuration } from '../../input/policy-text.js'
import { timers } from '../../platform/timers.js'
import type { BanRule, PolicySet } from '../../policies/policy-set.js'
import type { StoreEvents } from './health.js'

/** How long an entry of the registry counts as used. */
export const REGISTRY_TTL_MS = 5_400_000

/** How often policies are published again, while there are calls. */
const REPUBLISH_MS = 3_600_000

/** The most closed prefixes whose publication is remembered. */
const MAX_CLOSED = 1_000

interface PrefixEntry {
  /** The policies by variant: with tiers, one for each. */
  readonly policySets: PolicySet[]
  text: string
  /** When the policies are to be published; `undefined` before the first call. */
  dueAt: number | undefined
}

/**
 * The registry of policies: publishes in Redis which policies decide the calls of a prefix, and
 * warns of others under the prefix. It works when calls are answered, without timers, and no call waits for it.
 */
export class PolicyRegistry {
  readonly #publish: (prefix: string, text: string, ttlMs: number) => void
  readonly #warn: (warning: StoreEvents['warning']) => void
  readonly #prefixes = new Map<string, PrefixEntry>()
  /** Closed prefixes: a limiter that is opened for each request must not publish with each. */
  readonly #closed = new Map<string, PrefixEntry>()
  /** The callers of {@link check}, by prefix. */
  readonly #checks = new Map<string, ((texts: readonly string[]) => void)[]>()
  readonly #timeoutMs: number
  readonly #warned = new Set<string>()
  #nextDueAt = Number.POSITIVE_INFINITY
  #isPublishing = true

  /**
   * @param publish - Publishes a text for a time; 0 publishes nothing. The entries under the prefix
   * are then passed to {@link compare}; none if this fails.
   */
  constructor(
    publish: (prefix: string, text: string, ttlMs: number) => void,
    warn: (warning: StoreEvents['warning']) => void,
    timeoutMs: number,
  ) {
    this.#timeoutMs = timeoutMs
    this.#publish = publish
    this.#warn = warn
  }

  /** Sets the policies of a prefix, or of one of its variants. Changed policies are published again. */
  setPolicies(prefix: string, policySet: PolicySet, variant: number): void {
    const entry = this.#prefixes.get(prefix) ?? { policySets: [], text: '', dueAt: undefined }
    entry.policySets[variant] = policySet
    const text = registeredText(entry.policySets)
    if (text !== entry.text && entry.dueAt !== undefined) {
      entry.dueAt = timers.now()
      this.#nextDueAt = entry.dueAt
    }
    entry.text = text
    this.#prefixes.set(prefix, entry)
  }

  remove(prefix: string): void {
    const entry = this.#prefixes.get(prefix)
    this.#prefixes.delete(prefix)
    if (entry?.dueAt !== undefined) {
      if (this.#closed.size >= MAX_CLOSED) {
        this.#closed.clear()
      }
      this.#closed.set(prefix, entry)
    }
  }

  /** Publishes nothing from now on: the command line does not know that its policies are in use. */
  stopPublishing(): void {
    this.#isPublishing = false
  }

  markUsed(prefix: string): void {
    const entry = this.#prefixes.get(prefix)
    if (entry !== undefined && entry.dueAt === undefined) {
      const closed = this.#closed.get(prefix)
      this.#closed.delete(prefix)
      entry.dueAt = (closed?.text === entry.text ? closed.dueAt : undefined) ?? timers.now()
      this.#nextDueAt = Math.min(this.#nextDueAt, entry.dueAt)
    }
  }

  publishDue(): void {
    const now = timers.now()
    if (now < this.#nextDueAt || !this.#isPublishing) {
      return
    }
    this.#nextDueAt = Number.POSITIVE_INFINITY
    for (const [prefix, entry] of this.#prefixes) {
      if (entry.dueAt !== undefined && now >= entry.dueAt) {
        entry.dueAt = now + REPUBLISH_MS
        this.#publish(prefix, entry.text, REGISTRY_TTL_MS)
      }
      this.#nextDueAt = Math.min(this.#nextDueAt, entry.dueAt ?? this.#nextDueAt)
    }
  }

  /** Reads the entries under a prefix. @throws {TollgateError} `INVALID_POLICY` for other names or algorithms. */
  async check(prefix: string): Promise<void> {
    const entry = this.#prefixes.get(prefix)
    if (entry === undefined) {
      return
    }
    const texts = await new Promise<readonly string[]>((resolve) => {
      // A store that is closed meanwhile does not answer.
      const timer = timers.setTimeout(() => resolve([]), 2 * this.#timeoutMs)
      const settle = (registered: readonly string[]) => {
        timers.clearTimeout(timer)
        resolve(registered)
      }
      this.#checks.set(prefix, [...(this.#checks.get(prefix) ?? []), settle])
      this.#publish(prefix, entry.text, 0)
    })
    const ours = policiesIn(entry.text)
    const own = statesOf(ours).join()
    const other = texts.map(policiesIn).find((theirs) => statesOf(theirs).join() !== own)
    if (other !== undefined) {
      throw new TollgateError(
        'INVALID_POLICY',
        `policies of another kind: ${warningOf(prefix, ours, other).message}, or pass takeOver: true`,
      )
    }
  }

  compare(prefix: string, texts: readonly string[]): void {
    for (const resolve of this.#checks.get(prefix) ?? []) {
      resolve(texts)
    }
    this.#checks.delete(prefix)
    const entry = this.#prefixes.get(prefix)
    if (entry === undefined) {
      return
    }
    const ours = policiesIn(entry.text)
    for (const theirs of texts.map(policiesIn)) {
      const pair = JSON.stringify([prefix, ours, theirs])
      if (theirs !== ours && !this.#warned.has(pair)) {
        this.#warned.add(pair)
        this.#warn(warningOf(prefix, ours, theirs))
      }
    }
  }
}

/** The text of a limiter's policies by name, with the option `lease` of leases and `tier` of tiered policies. */
export function policySetsText(policySets: readonly PolicySet[]): string {
  const all = policySets.flatMap(({ policies, leaseMs, tier }) =>
    policies.map(({ name, policy, isTiered }) => {
      const { algorithm, ...options } = policy
      const own = { ...options, lease: leaseMs, tier: isTiered ? tier : undefined }
      const texts = Object.entries(own).flatMap(([option, value]) => optionTexts(option, value))
      return `${name}: ${[algorithm, ...texts.sort()].join(' ')}`
    }),
  )
  return [...new Set(all)].sort().join('; ')
}

/** What the rule for bans is called among the policies. No policy's name begins with `~`. */
export const BAN_ITEM = '~ban'

function registeredText(policySets: readonly PolicySet[]): string {
  const ban = policySets[0]?.ban
  const policies = policySetsText(policySets)
  return ban === undefined ? policies : `${policies}; ${BAN_ITEM}: ${banText(ban)}`
}

function banText({ after, withinUs, forgetUs, lengthsUs, policies, per }: BanRule): string {
  const [period, ttl, ...lengths] = [withinUs, forgetUs, ...lengthsUs].map((us) => shortDuration(us / 1_000))
  const named = policies === undefined ? '' : ` policies=${policies.join(',')}`
  const target = per === undefined ? '' : ` per=${per}`
  return `after=${after} period=${period} for=${lengths.join(',')} ttl=${ttl}${named}${target}`
}

/** A registered text without the rule for bans, which limiters of a prefix need not share. */
export function policiesIn(text: string): string {
  return text
    .split('; ')
    .filter((item) => !item.startsWith('~'))
    .join('; ')
}

function warningOf(prefix: string, ours: string, theirs: string): StoreEvents['warning'] {
  const [own, others] = [ours, theirs].map(statesOf) as [string[], string[]]
  const shared = own.filter((state) => others.includes(state))
  const sharesStates = shared.length > 0
  const effect = sharesStates
    ? `both count on the same states (${shared.join(', ')}), ${changeOf(ours, theirs)}`
    : 'neither sees the counts of the other, as after a change of algorithm: keys start in their initial state'
  const advice = 'expected while a change is rolled out; otherwise give one of them another prefix'
  return {
    code: 'POLICIES_DIFFER',
    message: `prefix ${prefix} is used here with "${ours}", and elsewhere within 90 minutes with "${theirs}": ${effect}; ${advice}`,
    prefix,
    ours,
    theirs,
    sharesStates,
  }
}

/** The options of policies that are no numbers, and name no state: limiters that differ in them should not share keys. */
const KINDS = ['per', 'meter', 'tier', 'countRefused', 'every', 'timeZone']

function changeOf(ours: string, theirs: string): string {
  const [own, others] = [ours, theirs].map(kindsIn) as [string[], string[]]
  const different = KINDS.filter((option) => {
    const [one, other] = [own, others].map((all) => all.filter((text) => text.includes(` ${option}=`)).join())
    return one !== other
  })
  return different.length === 0 ? 'as after a change of numbers' : `although they differ in ${different.join(', ')}`
}

/** The options of {@link KINDS} of each policy, such as `default per=ip`. */
function kindsIn(text: string): string[] {
  const kinds = text.split('; ').flatMap((policy) => {
    const [name, , ...options] = policy.split(' ')
    return options
      .filter((option) => KINDS.includes(option.split('=')[0] as string))
      .map((option) => `${name} ${option}`)
  })
  return [...new Set(kinds)].sort()
}

/** The states that policies count on: names, algorithms and layouts, without numbers. */
export function statesOf(text: string): string[] {
  const states = text.split('; ').map((policy) => {
    const [name, algorithm, ...options] = policy.split(' ')
    const layout = options.filter((option) => /^(layout=hash|refillMode=interval)$/.test(option))
    const hasLimits = options.some((option) => option.startsWith('limits.'))
    return [name, algorithm, ...layout, ...(hasLimits ? ['limits'] : [])].join(' ')
  })
  return [...new Set(states)]
}
