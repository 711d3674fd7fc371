import { once } from 'node:events'
import { createInterface } from 'node:readline/promises'
import type { Command } from 'commander'
import { policySetsText } from '../../backends/redis/policy-registry.js'
import { GLOBAL } from '../../policies/key-dimension.js'
import { EXIT, type ExitCode } from '../exit-codes.js'
import { asUsageError, CommandFailure, usageError } from '../failure.js'
import { printResult, type Terminal } from '../terminal.js'
import { checkUsage, type ExistingState } from './check-usage.js'
import { type CommandLimiter, type Connection, withRedis } from './connect/connection.js'
import {
  durationOption,
  type RedisCommandOptions,
  withEndpointOptions,
  withKeyOptions,
  withPolicyOptions,
} from './connect/options.js'
import { formatInspection, formatKey } from './format-inspection.js'
import { inspectKey, mismatches } from './inspect.js'
import { checkNumbers, configOf, keyOf, type LimiterConfig, type PolicyOptions, policySetOfTier } from './policies.js'
import { kindsIn, needOf, registeredConfig, registeredTexts } from './registry.js'
import { formatNoKeys, formatPolicyList, scanUsage } from './usage.js'

export interface MutateOptions extends RedisCommandOptions, PolicyOptions {
  readonly key: readonly string[]
  readonly tag?: string
  readonly dryRun?: true
  readonly yes?: true
  readonly force?: true
  readonly scan: number
}

export interface Mutation {
  readonly name: string
  /** The message after the key: for the change, and for a dry run. */
  readonly messages: readonly [did: string, would: string]
  /** Decides from the existing state whether there is nothing to change, with the message for it. */
  readonly noop?: { readonly applies: (before: ExistingState) => boolean; readonly message: string }
  /** Whether it refuses calls. On a key that counts all calls together, it affects all callers. */
  readonly refusesCalls?: boolean
  readonly needsNumbers?: boolean
  /** Creates the change for the given policies. Throws on invalid arguments before the connection is opened. */
  readonly prepare: (
    config: LimiterConfig,
    tier: string | undefined,
  ) => (limiter: CommandLimiter, key: string) => Promise<unknown>
}

const CHECK_HELP = `
The policies:
  Without --policy and --policies, the command uses the policies that limiters with the prefix have registered: those of \
the last 90 minutes, or the last ones within 30 days. It fails if they differ. Policies that are given must have the \
registered numbers, if there are any: other numbers could remove counts from the key's state.

The check before a change:
  The command first checks that the prefix is used with the given policies: by the registered ones, by the state of the \
key itself, or by other keys of the prefix, which SCAN looks for within --scan. If the check fails, nothing is done (exit code 2): with a wrong \
algorithm or prefix, the command would change a key that no limiter reads. --force skips the check, for a key that is \
changed before the limiter's first call.
  Exit code 1: there was nothing to remove: no block, no override, or no state of the key.`

export function withMutateOptions(command: Command): Command {
  return withPolicyOptions(withKeyOptions(withEndpointOptions(command)), '')
    .option('--dry-run', 'print what would be done, and do nothing')
    .option('--yes', 'do not ask for confirmation of a change that affects all callers')
    .option('--force', 'do not check that the prefix is used with these policies: before the first call on it')
    .addOption(
      durationOption(
        '--scan <duration>',
        'maximum time for scanning other keys, if the key itself has no state',
      ).default(5_000, '5s'),
    )
    .addHelpText('after', CHECK_HELP)
}

/** Changes a key with an ordinary limiter, and prints the key's state afterwards. */
export async function mutate(
  url: string | undefined,
  options: MutateOptions,
  terminal: Terminal,
  { name, messages: [did, would], noop, refusesCalls = false, needsNumbers = false, prepare }: Mutation,
): Promise<ExitCode> {
  const registered = async (connection: Connection, prefix: string, [first, ...more]: readonly string[]) => {
    if (first !== undefined) {
      return registeredConfig([first, ...more], prefix, name, needsNumbers)
    }
    const why = `no limiter with the prefix ${prefix} has registered its policies in the last 30 days`
    const usage = await scanUsage(connection, { prefix, forMs: options.scan })
    const found =
      usage.policies.length === 0
        ? formatNoKeys(prefix, connection.name, usage)
        : `its keys belong to ${formatPolicyList(usage.policies)}`
    throw usageError(`${needOf(name)}: ${why}, and ${found}`)
  }
  const prepareWith = async (config: LimiterConfig) => {
    policySetOfTier(config, options.tier)
    const run = prepare(config, options.tier)
    const key = asUsageError('--key', () => keyOf(options.key, config.policySet))
    const affectsAll = refusesCalls && typeof key !== 'string' && key[GLOBAL] === true
    if (affectsAll && options.yes !== true && options.dryRun !== true) {
      await confirm(terminal, `${name} ${GLOBAL} affects every call of ${options.prefix}`)
    }
    return { config, run, key }
  }
  const given = configOf(options)
  const ready = given === undefined ? undefined : await prepareWith(given)
  const { inspection, isNoop, config, key } = await withRedis(url, options, terminal, async (connection) => {
    const texts = await registeredTexts(connection, options.prefix)
    const { config, run, key } = ready ?? (await prepareWith(await registered(connection, options.prefix, texts)))
    const isRegistered = kindsIn(texts).includes(kindsIn([policySetsText(config.policySets)]).join())
    const scanMs = options.force === true ? undefined : options.scan
    const before = await checkUsage(connection, options, config, isRegistered, scanMs)
    if (ready !== undefined && options.force !== true) {
      checkNumbers(config, texts, options.prefix)
    }
    if (options.dryRun !== true) {
      const limiter = connection.limiter(config, options.prefix, options.tag)
      try {
        await run(limiter, key as string)
      } finally {
        await limiter.close()
      }
    }
    const inspection = await inspectKey(connection, options, { given: config, scanMs: 0 })
    return { inspection, isNoop: noop?.applies(before) === true, config, key }
  })
  const isDone = options.dryRun !== true && !isNoop
  const message = isNoop ? noop?.message : options.dryRun === true ? would : did
  printResult(terminal, options.format, { command: name, isDone, ...inspection }, (paint) => {
    return `${formatKey(key)} ${message}\n\n${formatInspection(inspection, paint, mismatches(inspection, config))}`
  })
  return isNoop ? EXIT.no : EXIT.fine
}

/** Asks for confirmation of a change that affects all callers. Without a terminal, `--yes` is required. */
async function confirm({ stdin, stderr }: Terminal, what: string): Promise<void> {
  if (stdin.isTTY !== true) {
    throw usageError(`${what}: pass --yes`)
  }
  const prompt = createInterface({ input: stdin, output: stderr })
  try {
    // Ctrl-C and the end of the input close the interface without an answer.
    const closed = once(prompt, 'close').then(() => '')
    const answer = await Promise.race([prompt.question(`${what}. Continue? [y/N] `), closed])
    if (!/^y(es)?$/i.test(answer.trim())) {
      throw new CommandFailure('nothing was done', EXIT.no)
    }
  } finally {
    prompt.close()
  }
}
