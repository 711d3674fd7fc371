import { setTimeout as sleep } from 'node:timers/promises'
import { Command, Option } from 'commander'
import { TollgateError } from '../../api/error.js'
import { EXIT, type ExitCode } from '../exit-codes.js'
import { formatDuration, formatNumber, formatShare } from '../format.js'
import { type Connection, withRedis } from '../redis/connect/connection.js'
import {
  durationOption,
  parser,
  type RedisCommandOptions,
  type SampleOptions,
  wholeNumberIn,
  withEndpointOptions,
  withPolicyOptions,
  withSampleOptions,
} from '../redis/connect/options.js'
import { type HotKey, type HotKeySample, hottest, hottestFirst } from '../redis/hot-keys.js'
import { configOf, keyWordOf, type LimiterConfig, type PolicyOptions, policySetOfTier } from '../redis/policies.js'
import { dimensionsOf, registeredConfigs, registeredTexts } from '../redis/registry.js'
import { formatExtent } from '../redis/scan.js'
import { formatNoKeys, formatPolicy, formatPolicyList, scanUsage, usedPolicyOf } from '../redis/usage.js'
import {
  columnsOf,
  escapeControls,
  type Paint,
  paintFor,
  shortened,
  type Terminal,
  table,
  wrapped,
} from '../terminal.js'

interface TopOptions extends RedisCommandOptions, PolicyOptions, SampleOptions {
  readonly most: number
  readonly by?: 'share' | 'used'
  /** The pause between two lists, in milliseconds; `undefined` for one list. */
  readonly watch?: number
}

/** Clears the terminal, and moves to its first column. */
const CLEAR = '\u001b[2J\u001b[H'

/** The maximum width of a key in the table. `--format json` prints the whole key. */
const KEY_COLUMNS = 60

const HELP = `
How it works:
  It runs SCAN, a page of each master in turn, within the bounds of the options, and prints the share of the keys that \
it has scanned. It never runs KEYS, and it writes nothing. The order in which Redis stores keys does not depend on \
their use, so a partial scan is a fair sample; the hottest key of all may be in the rest.
  Keys are ranked by the used share of their limit, if it is known: from the state of rates and of tokens refilled at \
intervals, from overrides, and from the policies that are given, or that limiters have registered. The limits of windows \
and logs with tiers need --tier. Otherwise keys are ranked by the units used.
  Exit code 1: no key of the prefix is in use.

Examples:
  npx tollgate-cli top redis://localhost --prefix api
  npx tollgate-cli top --prefix api --policy 'fixedWindow limit=100 window=1m' --most 50 --for 30s --format json`

export function topCommand(terminal: Terminal, done: (code: ExitCode) => void): Command {
  const command = new Command('top')
    .summary('list the hottest keys of a limiter, from a sample')
    .description('Lists the hottest keys of a limiter. Read-only.')
  withPolicyOptions(withEndpointOptions(command), '; default: those that limiters have registered')
    .optionsGroup('The list:')
    .option('--most <n>', 'how many keys to list', parser(wholeNumberIn(1, 10_000)), 20)
    .addOption(new Option('--by <measure>', 'what to rank by').choices(['share', 'used']))
  return withSampleOptions(command)
    .addOption(
      durationOption('--watch [every]', 'list again and again, until Ctrl-C: every 2s, or as often as given').preset(
        '2s',
      ),
    )
    .addHelpText('after', HELP)
    .action(async (url: string | undefined, options: TopOptions) => {
      const given = configOf(options)
      const [paint, columns] = [paintFor(terminal), columnsOf(terminal.stdout)]
      await withRedis(url, options, terminal, async (connection) => {
        for (let isFirst = true; isFirst || options.watch !== undefined; isFirst = false) {
          if (!isFirst) {
            await sleep(options.watch)
          }
          const result = await topOf(connection, given, options)
          const isWatched = options.watch !== undefined
          const text =
            options.format === 'json'
              ? jsonOf(result, isWatched)
              : wrapped(formatTop(result, given, paint, columns), columns)
          terminal.stdout.write((isWatched && terminal.stdout.isTTY ? CLEAR : '') + text)
          done(result.keys.length === 0 ? EXIT.no : EXIT.fine)
        }
      })
    })
}

async function topOf(connection: Connection, given: LimiterConfig | undefined, options: TopOptions) {
  const { prefix, for: forMs } = options
  const registered = registeredConfigs(await registeredTexts(connection, prefix), prefix)
  const config = given ?? (registered.length === 1 ? registered[0] : undefined)
  const dimensions = dimensionsOf(given === undefined ? registered : [given])
  const sample = await hottest(connection, config, { ...options, forMs })
  const by = options.by ?? (sample.hasShares ? 'share' : 'used')
  const found = by === 'share' ? sample.byShare : sample.byUsed
  const ranked = config === undefined ? found : await withExactUsage(connection, config, options, found)
  const ordered = [...ranked].sort(hottestFirst(({ share = 0, used }) => (by === 'share' ? share : used)))
  const keys = ordered.map((hot) => {
    const dimension = dimensions.get(hot.policy)
    return dimension === undefined ? hot : { ...hot, dimension }
  })
  // Without keys of the prefix, a note names the prefixes that have keys.
  const usage = sample.read === 0 ? await scanUsage(connection, { prefix, forMs }) : undefined
  return { prefix, server: connection.name, by, sample, keys, ...(usage && { usage }) }
}

type TopResult = Awaited<ReturnType<typeof topOf>>

/** The result as JSON: on one line if further ones follow. */
function jsonOf(result: TopResult, isWatched: boolean): string {
  const { byShare: _share, byUsed: _used, hasShares: _has, ...sample } = result.sample
  return `${JSON.stringify({ ...result, sample }, undefined, isWatched ? undefined : 2)}\n`
}

/** Asks a limiter about keys of logs: only the policy knows which entries have expired. */
async function withExactUsage(
  connection: Connection,
  config: LimiterConfig,
  { prefix, tier, policy, policies: file }: TopOptions,
  found: readonly HotKey[],
): Promise<readonly HotKey[]> {
  const policySet = policySetOfTier(config, tier)
  if (policySet === undefined || policySet.dimensions !== undefined || found.every(({ isUsedExact }) => isUsedExact)) {
    return found
  }
  const { policies, limits } = policySet
  const limiter = connection.limiter(config, prefix, undefined)
  try {
    const peeked = found.map(async (hot) => {
      const index = policies.findIndex(({ name, policy }) => name === hot.policy && policy.algorithm === hot.algorithm)
      if (hot.isUsedExact || index < 0) {
        return hot
      }
      const options = {
        cost: 0,
        ...(hot.tag === undefined ? {} : { tag: hot.tag }),
        ...(tier === undefined ? {} : { tier }),
      }
      const decision = await limiter.peek(hot.key, options as object)
      const current = limits
        .filter(({ policy }) => policy === index)
        .flatMap(({ name }) => decision.policies[name] ?? [])
      const [fullest] = current
        .map(({ capacity, used }) => ({ limit: capacity, used, share: used / capacity }))
        .sort((one, other) => other.share - one.share)
      return fullest === undefined ? hot : { ...hot, ...fullest, isUsedExact: true }
    })
    return (await Promise.all(peeked)).filter(({ used }) => used > 0)
  } catch (error) {
    // A user who may only read has no scripts.
    if (policy === undefined && file === undefined && TollgateError.is(error) && error.code === 'STORE_ERROR') {
      return found
    }
    throw error
  } finally {
    await limiter.close()
  }
}

function formatTop(
  result: TopResult,
  config: LimiterConfig | undefined,
  paint: Paint,
  columns: number | undefined,
): string {
  const { prefix, server, by, sample, keys } = result
  const measure = by === 'share' ? 'by used share' : 'by units used'
  const rows = keys.map((hot) => [
    hot.share === undefined ? '' : paint(shareStyle(hot.share), formatShare(hot.used, hot.limit as number)),
    hot.used,
    hot.limit ?? '',
    escapeControls(hot.policy),
    hot.algorithm,
    shortened(keyWordOf(hot), KEY_COLUMNS),
    keyNotes(hot),
  ])
  const head = ['share', 'used', 'limit', 'policy', 'algorithm', 'key', ''].map((name) => paint('bold', name))
  const shown =
    rows.length === 0 ? '  no key is in use\n' : table([head, ...rows], { columns, cut: [5, 6], omit: [4, 3] })
  return `Hottest keys of ${prefix} at ${server}, ${measure}\n\n${shown}\n${formatSample(sample)}\n${formatNotes(result, config)}`
}

function shareStyle(share: number): 'green' | 'yellow' | 'red' {
  return share >= 1 ? 'red' : share >= 0.8 ? 'yellow' : 'green'
}

/** A note if the prefix or the given policies seem to be wrong. */
function formatNotes({ prefix, server, keys, usage }: TopResult, config: LimiterConfig | undefined): string {
  if (usage?.policies.length === 0) {
    return `Note: ${formatNoKeys(prefix, server, usage)}\n`
  }
  const given = (config?.policySet.policies ?? []).map(usedPolicyOf)
  const words = new Set(given.map(formatPolicy))
  if (given.length === 0 || keys.length === 0 || keys.some((hot) => words.has(formatPolicy(hot)))) {
    return ''
  }
  return `Note: none of these keys belongs to ${formatPolicyList(given)}, the given policy\n`
}

function keyNotes({ blockedForMs, override, tag, isUsedExact }: HotKey): string {
  const notes = [
    ...(isUsedExact ? [] : ['upper bound']),
    ...(blockedForMs === undefined ? [] : [`blocked for ${formatDuration(blockedForMs)}`]),
    ...(override === undefined ? [] : ['override']),
    ...(tag === undefined ? [] : [`tag ${escapeControls(tag)}`]),
  ]
  return notes.length === 0 ? '' : `(${notes.join(', ')})`
}

function formatSample({ read, inUse, blocked, overridden, ...extent }: HotKeySample): string {
  const counts = `${formatNumber(read)} of this limiter, ${formatNumber(inUse)} in use`
  const list = blocked === 0 ? '' : ' (tollgate-cli blocked lists them)'
  return `${formatExtent(extent)}; ${counts}, ${formatNumber(blocked)} blocked${list}, ${formatNumber(overridden)} with an override.`
}
