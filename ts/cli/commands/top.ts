import { Command, Option } from 'commander'
import { EXIT, type ExitCode } from '../exit-codes.js'
import { type Connection, withRedis } from '../redis/connect/connection.js'
import {
  type CommonOptions,
  lengthOfTime,
  parsed,
  wholeFrom,
  withPlace,
  withPolicies,
} from '../redis/connect/options.js'
import { lengthInWords, number, shareInWords } from '../redis/format.js'
import { byHeat, type Hot, hottest, type Sample } from '../redis/hottest.js'
import { type Enforced, enforcedOf, type PolicyOptions } from '../redis/policies.js'
import { noKeysInWords, policiesInWords, policyInWords, type Usage, usageOf, usedPolicyOf } from '../redis/usage.js'
import { printable, shortened, type Terminal, table } from '../terminal.js'

interface TopOptions extends CommonOptions, PolicyOptions {
  readonly most: number
  readonly by?: 'share' | 'used'
  /** In milliseconds. */
  readonly for: number
  readonly sample: number
  readonly count: number
}

/** So wide may a key be in the table; `--format json` has it whole. */
const KEY_COLUMNS = 60

const HELP = `
How it looks:
  By SCAN, a page of each master in turn, for no longer and no further than the options say, and tells which share of
  the keys it has gone through; never by KEYS. It writes nothing. Redis keeps keys in an order of its own, so a part
  of them is a fair sample; the hottest key of all may be in the rest.
  Keys are ranked by the used share of their limit, where that is known: from the state of rates and of tokens refilled
  at intervals, from overrides, and from the policies given. Otherwise they are ranked by the units used.
  Exit code 1: no key of the prefix is in use.

Examples:
  npx tollgate top redis://localhost --prefix api
  npx tollgate top --prefix api --policy 'fixedWindow limit=100 window=1m' --most 50 --for 30s --format json`

/** `tollgate top`: the hottest keys. */
export function topCommand(terminal: Terminal, done: (code: ExitCode) => void): Command {
  const command = new Command('top')
    .summary('tell the hottest keys of a limiter, by going through a sample of them')
    .description('Tells the hottest keys of a limiter. It only looks.')
  return withPolicies(withPlace(command), ': tells limits that states do not tell')
    .addOption(new Option('--most <n>', 'how many keys to tell').default(20).argParser(parsed(wholeFrom(1, 10_000))))
    .addOption(new Option('--by <measure>', 'what to rank by').choices(['share', 'used']))
    .addOption(
      new Option('--for <duration>', 'go through keys for so long')
        .default(5_000, '5s')
        .argParser(parsed(lengthOfTime)),
    )
    .addOption(
      new Option('--sample <keys>', "read no more of the limiter's keys")
        .default(1_000_000)
        .argParser(parsed(wholeFrom(1, 1_000_000_000))),
    )
    .addOption(
      new Option('--count <n>', "keys that a server looks at for one page: SCAN's COUNT")
        .default(1_000)
        .argParser(parsed(wholeFrom(10, 10_000))),
    )
    .addHelpText('after', HELP)
    .action(async (url: string | undefined, options: TopOptions) => {
      const enforced = enforcedOf(options)
      const bounds = { ...options, forMs: options.for }
      const told = await withRedis(url, options, terminal, async (connection) => {
        const sample = await hottest(connection, enforced, bounds)
        const by = options.by ?? (sample.hasShares ? 'share' : 'used')
        const found = by === 'share' ? sample.byShare : sample.byUsed
        const exact = enforced === undefined ? found : await exactly(connection, enforced, options.prefix, found)
        const keys = [...exact].sort(byHeat(({ share = 0, used }) => (by === 'share' ? share : used)))
        const search = { prefix: options.prefix, forMs: options.for }
        const usage = sample.read === 0 ? await usageOf(connection, search) : undefined
        return { prefix: options.prefix, server: connection.name, by, sample, keys, ...(usage && { usage }) }
      })
      const { byShare: _share, byUsed: _used, hasShares: _has, ...sample } = told.sample
      terminal.stdout.write(
        options.format === 'json' ? `${JSON.stringify({ ...told, sample }, undefined, 2)}\n` : inWords(told, enforced),
      )
      done(told.keys.length === 0 ? EXIT.no : EXIT.fine)
    })
}

/** Asks for what logs do not tell by themselves: what of them has expired, only their policies know. */
async function exactly(
  connection: Connection,
  enforced: Enforced,
  prefix: string,
  found: readonly Hot[],
): Promise<readonly Hot[]> {
  const { subjects, policies, limits } = enforced.compound
  if (subjects !== undefined || found.every(({ isUsedExact }) => isUsedExact)) {
    return found
  }
  const limiter = connection.limiter(enforced, prefix, undefined)
  try {
    const asked = found.map(async (hot) => {
      const index = policies.findIndex(({ name, policy }) => name === hot.policy && policy.algorithm === hot.algorithm)
      if (hot.isUsedExact || index < 0) {
        return hot
      }
      const decision = await limiter.peek(hot.key, { cost: 0, ...(hot.tag === undefined ? {} : { tag: hot.tag }) })
      const own = limits.filter(({ policy }) => policy === index).flatMap(({ name }) => decision.policies[name] ?? [])
      const [fullest] = own
        .map(({ limit, remaining }) => ({ limit, used: limit - remaining, share: (limit - remaining) / limit }))
        .sort((one, other) => other.share - one.share)
      return fullest === undefined ? hot : { ...hot, ...fullest, isUsedExact: true }
    })
    return (await Promise.all(asked)).filter(({ used }) => used > 0)
  } finally {
    await limiter.close()
  }
}

interface Told {
  readonly prefix: string
  readonly server: string
  readonly by: 'share' | 'used'
  readonly sample: Sample
  readonly keys: readonly Hot[]
  /** If the prefix has no keys: what was met on the way. */
  readonly usage?: Usage
}

function inWords(told: Told, enforced: Enforced | undefined): string {
  const { prefix, server, by, sample, keys } = told
  const measure = by === 'share' ? 'by used share' : 'by units used'
  const rows = keys.map((hot) => [
    hot.share === undefined ? '' : shareInWords(hot.used, hot.limit as number),
    hot.used,
    hot.limit ?? '',
    hot.policy,
    hot.algorithm,
    shortened(hot.key, KEY_COLUMNS) + notesOn(hot),
  ])
  const head = ['share', 'used', 'limit', 'policy', 'algorithm', 'key']
  const shown = rows.length === 0 ? '  no key is in use\n' : table([head, ...rows])
  return `Hottest keys of ${prefix} at ${server}, ${measure}\n\n${shown}\n${sampleInWords(sample)}\n${notesInWords(told, enforced)}`
}

/** What the prefix or the policies given may have wrong. */
function notesInWords({ prefix, server, keys, usage }: Told, enforced: Enforced | undefined): string {
  if (usage?.policies.length === 0) {
    return `Note: ${noKeysInWords(prefix, server, usage)}\n`
  }
  const given = (enforced?.compound.policies ?? []).map(usedPolicyOf)
  const words = new Set(given.map(policyInWords))
  if (given.length === 0 || keys.length === 0 || keys.some((hot) => words.has(policyInWords(hot)))) {
    return ''
  }
  return `Note: none of these keys is of ${policiesInWords(given)}, the policy given\n`
}

function notesOn({ blockedForMs, override, tag, isUsedExact }: Hot): string {
  const notes = [
    ...(isUsedExact ? [] : ['at most so many']),
    ...(blockedForMs === undefined ? [] : [`blocked for ${lengthInWords(blockedForMs)}`]),
    ...(override === undefined ? [] : ['override']),
    ...(tag === undefined ? [] : [`tag ${printable(tag)}`]),
  ]
  return notes.length === 0 ? '' : `  (${notes.join(', ')})`
}

function sampleInWords({ read, inUse, blocked, overridden, gone, isComplete, ms }: Sample): string {
  const share = gone === undefined ? 'a part of all keys' : `about ${shareInWords(gone, 1)} of all keys`
  const part = isComplete ? 'all keys' : `${share} (a sample: --for and --sample take more)`
  const counts = `${number(read)} of this limiter, ${number(inUse)} in use`
  return `Gone through in ${lengthInWords(ms)}: ${part}; ${counts}, ${number(blocked)} blocked, ${number(overridden)} with an override.`
}
