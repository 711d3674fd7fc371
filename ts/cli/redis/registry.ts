import { BAN_ITEM, policiesIn, statesOf } from '../../backends/redis/policy-registry.js'
import { usageError } from '../failure.js'
import type { Connection } from './connect/connection.js'
import { configOfValue, type LimiterConfig, quoted } from './policies.js'

/** The texts of the registered policies of a prefix, the latest last: of 90 minutes, or the last within 30 days. */
export async function registeredTexts({ reader }: Connection, prefix: string): Promise<readonly string[]> {
  return (await reader.find({ prefix, policies: [], key: prefix })).registeredPolicies
}

/** The options of a policy in a registered text that are not the policy's. */
const VARIANT = / (?:lease|tier)=\S+/g

/** The policies of a registered text. Throws if no limiter can have written it. */
function configIn(text: string, prefix: string): LimiterConfig {
  const policies = new Map<string, string | { readonly tiers: Record<string, string> }>()
  for (const item of policiesIn(text).split('; ')) {
    const [, name = '', options = ''] = /^([^:]*): (.*)$/.exec(item) ?? []
    const tier = / tier=(\S+)/.exec(options)?.[1]
    const policy = options.replace(VARIANT, '')
    if (tier === undefined) {
      policies.set(name, policy)
    } else {
      const known = policies.get(name)
      const tiers = typeof known === 'object' ? known.tiers : {}
      policies.set(name, { tiers: { ...tiers, [tier]: policy } })
    }
  }
  const single = policies.size === 1 ? policies.get('default') : undefined
  return configOfValue(single ?? Object.fromEntries(policies), `the registered policies of ${prefix}`)
}

/** The policies of registered texts, the latest last. Texts that no limiter can have written are left out. */
export function registeredConfigs(texts: readonly string[], prefix: string): readonly LimiterConfig[] {
  return texts.flatMap((text) => {
    try {
      return [configIn(text, prefix)]
    } catch {
      return []
    }
  })
}

/** The key dimensions by the names of policies, of those with a `per`. */
export function dimensionsOf(configs: readonly LimiterConfig[]): ReadonlyMap<string, string> {
  const entries = configs.flatMap(({ policySet: { policies } }) =>
    policies.flatMap(({ name, policy: { per } }) => (per === undefined ? [] : [[name, per] as const])),
  )
  return new Map(entries)
}

/** When limiters of a prefix ban keys, as they have registered it: `after=5 period=10m for=1h,1d ttl=1d`. */
export function banRuleIn(texts: readonly string[]): string | undefined {
  const rules = texts.flatMap((text) => text.split('; ').filter((item) => item.startsWith(`${BAN_ITEM}: `)))
  return rules.at(-1)?.slice(BAN_ITEM.length + 2)
}

export function leasesIn(texts: readonly string[]): string[] {
  return [...new Set(texts.flatMap((text) => /\blease=(\w+)/.exec(text)?.[1] ?? []))]
}

/** The kinds of policies in texts, without numbers: one text if all limiters agree. */
export function kindsIn(texts: readonly string[]): string[] {
  return [...new Set(texts.map((text) => statesOf(policiesIn(text)).join('; ')))]
}

/** The registered policies of a prefix. Throws if they differ; with `needsNumbers` also if only their numbers do. */
export function registeredConfig(
  texts: readonly [string, ...string[]],
  prefix: string,
  command: string,
  needsNumbers: boolean,
): LimiterConfig {
  const text = texts.at(-1) as string
  const needs = needOf(command)
  const kinds = needsNumbers ? [...new Set(texts.map(policiesIn))] : kindsIn(texts)
  if (kinds.length > 1) {
    const [one, other] = [kinds[0], kinds.at(-1)].map((kind) => quoted(kind as string))
    throw usageError(`${needs}: limiters with the prefix ${prefix} have used ${one} and ${other}`)
  }
  if (needsNumbers && / lease=/.test(text)) {
    throw usageError(`${needs}: the numbers of ${prefix} depend on leases`)
  }
  return configIn(text, prefix)
}

export function needOf(command: string): string {
  return `${command} needs the limiter's --policy, or --policies`
}
