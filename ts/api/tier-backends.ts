import type { LimiterBackend } from '../backends/limiter-backend.js'
import { invalid, shown } from '../input/options.js'
import type { Policy } from '../policies/policy.js'
import type { PolicySet } from '../policies/policy-set.js'
import { differenceBetween } from '../policies/variants.js'
import { TollgateError } from './error.js'

/** Policies, by the names of the limits that decisions use. */
export type PoliciesByName = { readonly [name: string]: Policy }

/** The most tiers that a message lists. */
const MAX_LISTED = 8

/** A limiter's backends: one for each tier, or a single one. All use the same keys. */
export class TierBackends {
  policies: PoliciesByName
  policiesByTier: { readonly [tier: string]: PoliciesByName }
  /** The policies that the user wrote, by tier. With leases the store charges under others. */
  #written: readonly PolicySet[]
  #backends: readonly LimiterBackend[]
  /** By tier; `undefined` without tiers. */
  #byTier: ReadonlyMap<unknown, LimiterBackend> | undefined
  /** Earlier backends that are closing: calls under way use them. */
  readonly #closing = new Set<Promise<void>>()

  /** @throws {TollgateError} As `open`, and as {@link LimiterBackend.openVariant}. */
  constructor(tiers: readonly PolicySet[], open: (policySet: PolicySet) => LimiterBackend) {
    const policySets = withAllTiers(tiers)
    const [first, ...others] = policySets as readonly [PolicySet, ...PolicySet[]]
    const backend = open(first)
    const backends = [backend]
    try {
      others.forEach((policySet, index) => {
        backends.push(backend.openVariant(policySet, { index: index + 1, replaces: false }))
      })
    } catch (error) {
      backends.forEach(closeInBackground)
      throw error
    }
    this.#written = policySets
    this.#backends = backends
    this.#byTier = byTier(policySets, backends)
    this.policies = policiesByLimit(backend.policySet)
    this.policiesByTier = policiesOfTiers(this.#byTier)
  }

  /** The backend of the first tier. It also runs the operations that read no numbers of a tier. */
  get first(): LimiterBackend {
    return this.#backends[0] as LimiterBackend
  }

  /** The backend of a call. @throws {TollgateError} `INVALID_OPTION` */
  backendOf(method: string, tier: unknown): LimiterBackend {
    if (this.#byTier === undefined && tier === undefined) {
      return this.first
    }
    return this.#byTier?.get(tier) ?? this.#throwForTier(method, tier)
  }

  /** The policies of a tier, as the user wrote them. */
  writtenOf(tier: unknown): PolicySet {
    return this.#written.find((policySet) => policySet.tier === tier) as PolicySet
  }

  /** Replaces the numbers for later calls. If it throws, nothing has changed. */
  update(tiers: readonly PolicySet[]): LimiterBackend {
    const policySets = withAllTiers(tiers)
    const difference = differenceBetween(this.#written, policySets)
    if (difference !== undefined) {
      const rule = `must differ in numbers only: ${difference}`
      throw new TollgateError('INVALID_OPTION', `update: policies ${rule}; make a new limiter`)
    }
    const { first } = this
    const old = this.#backends
    const opened: LimiterBackend[] = []
    try {
      policySets.forEach((policySet, index) => {
        opened.push(first.openVariant(policySet, { index, replaces: true }))
      })
    } catch (error) {
      opened.forEach((backend, index) => {
        closeInBackground(first.openVariant(this.#written[index] as PolicySet, { index, replaces: true }))
        closeInBackground(backend)
      })
      throw error
    }
    this.#written = policySets
    this.#backends = opened
    this.#byTier = byTier(policySets, opened)
    this.policies = policiesByLimit(this.first.policySet)
    this.policiesByTier = policiesOfTiers(this.#byTier)
    for (const backend of old) {
      const closing: Promise<void> = backend.close().finally(() => this.#closing.delete(closing))
      this.#closing.add(closing)
    }
    return this.first
  }

  async close(): Promise<void> {
    await Promise.all([...this.#backends.map((backend) => backend.close()), ...this.#closing])
  }

  #throwForTier(method: string, tier: unknown): never {
    if (this.#byTier === undefined) {
      const advice = 'make the limiter with tiers({ … })'
      throw new TollgateError('INVALID_OPTION', `${method} has no option "tier": the limiter has no tiers; ${advice}`)
    }
    const names = [...this.#byTier.keys()].map(shown)
    const listed = names.length > MAX_LISTED ? [...names.slice(0, MAX_LISTED), '…'] : names
    throw invalid('INVALID_OPTION', `${method}: tier`, `must be one of ${listed.join(', ')}`, tier)
  }
}

function byTier(
  policySets: readonly PolicySet[],
  backends: readonly LimiterBackend[],
): ReadonlyMap<unknown, LimiterBackend> | undefined {
  return policySets[0]?.tier === undefined
    ? undefined
    : new Map(policySets.map(({ tier }, index) => [tier, backends[index] as LimiterBackend]))
}

function policiesByLimit({ policies, limits }: PolicySet): PoliciesByName {
  return Object.freeze(Object.fromEntries(limits.map(({ name, policy }) => [name, policies[policy]?.policy as Policy])))
}

function policiesOfTiers(backends: ReadonlyMap<unknown, LimiterBackend> = new Map()) {
  const all = [...backends].map(([tier, { policySet }]) => [tier as string, policiesByLimit(policySet)] as const)
  return Object.freeze(Object.fromEntries(all))
}

function closeInBackground(backend: LimiterBackend): void {
  void backend.close()
}

/** The policies of each tier, which know those of all tiers. */
function withAllTiers(tiers: readonly PolicySet[]): readonly PolicySet[] {
  return tiers.length === 1 ? tiers : tiers.map((policySet) => ({ ...policySet, allTiers: tiers }))
}
