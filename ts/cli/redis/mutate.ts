import { once } from 'node:events'
import { createInterface } from 'node:readline/promises'
import { type Command, Option } from 'commander'
import { GLOBAL } from '../../policies/key-dimension.js'
import { EXIT, type ExitCode } from '../exit-codes.js'
import { asUsageError, CommandFailure, usageError } from '../failure.js'
import { columnsOf, paintFor, type Terminal, wrapped } from '../terminal.js'
import { checkUsage, type ExistingState } from './check-usage.js'
import { type CommandLimiter, type Connection, withRedis } from './connect/connection.js'
import {
  parseDuration,
  parser,
  type RedisCommandOptions,
  withEndpointOptions,
  withKeyOptions,
  withPolicyOptions,
} from './connect/options.js'
import { formatInspection, formatKey } from './format-inspection.js'
import { inspectKey, mismatches } from './inspect.js'
import {
  checkNumbers,
  configOf,
  keyOf,
  type LimiterConfig,
  needOf,
  type PolicyOptions,
  registeredConfig,
} from './policies.js'
import { formatNoKeys, formatPolicyList, scanUsage } from './usage.js'

/** The options of commands that change a key. */
export interface MutateOptions extends RedisCommandOptions, PolicyOptions {
  readonly key: readonly string[]
  readonly tag?: string
  readonly dryRun?: true
  readonly yes?: true
  readonly force?: true
  /** In milliseconds. */
  readonly scan: number
}

/** A change of a key by one command. */
export interface Mutation {
  readonly name: string
  /** The message after the key: for the change, and for a dry run. */
  readonly messages: readonly [did: string, would: string]
  /**
   * Decides from the existing state whether there is nothing to change, with the message for it.
   */
  readonly noop?: { readonly applies: (before: ExistingState) => boolean; readonly message: string }
  /**
   * Whether it refuses calls. If the key counts all calls together, it would affect all callers.
   */
  readonly refusesCalls?: boolean
  /** Whether it needs the numbers of the policies. */
  readonly needsNumbers?: boolean
  /**
   * Creates the change for the given policies. It throws on invalid arguments before the connection
   * is opened.
   */
  readonly prepare: (config: LimiterConfig) => (limiter: CommandLimiter, key: string) => Promise<unknown>
}

const CHECK_HELP = `
The policies:
  Without --policy and --policies, the command uses the policies that limiters with the prefix have registered in the last \
90 minutes. It fails if they differ. Policies that are given must have the registered numbers, if there are any: other \
numbers could remove counts from the key's state.

The check before a change:
  The command first checks that the prefix is used with the given policies: by the state of the key itself, or by other \
keys of the prefix, which SCAN looks for within --scan. If the check fails, nothing is done (exit code 2): with a wrong \
algorithm or prefix, the command would change a key that no limiter reads. --force skips the check, for a key that is \
changed before the limiter's first call.
  Exit code 1: there was nothing to remove: no block, no override, or no state of the key.`

/** Adds the options of all commands that change a key. */
export function withMutateOptions(command: Command): Command {
  return withPolicyOptions(withKeyOptions(withEndpointOptions(command)), '')
    .option('--dry-run', 'print what would be done, and do nothing')
    .option('--yes', 'do not ask for confirmation of a change that affects all callers')
    .option('--force', 'do not check that the prefix is used with these policies: before the first call on it')
    .addOption(
      new Option('--scan <duration>', 'maximum time for scanning other keys, if the key itself has no state')
        .default(5_000, '5s')
        .argParser(parser(parseDuration)),
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
  const registered = async (connection: Connection, prefix: string) => {
    const [first, ...more] = await registeredTexts(connection, prefix)
    if (first !== undefined) {
      return registeredConfig([first, ...more], prefix, name, needsNumbers)
    }
    const why = `no limiter with the prefix ${prefix} has registered its policies in the last 90 minutes`
    const usage = await scanUsage(connection, { prefix, forMs: options.scan })
    const found =
      usage.policies.length === 0
        ? formatNoKeys(prefix, connection.name, usage)
        : `its keys belong to ${formatPolicyList(usage.policies)}`
    throw usageError(`${needOf(name)}: ${why}, and ${found}`)
  }
  const prepareWith = async (config: LimiterConfig) => {
    const run = prepare(config)
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
    const search = { names: undefined, scanMs: 0 }
    const { config, run, key } = ready ?? (await prepareWith(await registered(connection, options.prefix)))
    const before = await checkUsage(connection, options, config, options.force === true ? undefined : options.scan)
    if (ready !== undefined && options.force !== true) {
      checkNumbers(config, await registeredTexts(connection, options.prefix), options.prefix)
    }
    if (options.dryRun !== true) {
      const limiter = connection.limiter(config, options.prefix, options.tag)
      try {
        await run(limiter, key as string)
      } finally {
        await limiter.close()
      }
    }
    const inspection = await inspectKey(connection, options, config, search)
    return { inspection, isNoop: noop?.applies(before) === true, config, key }
  })
  const isDone = options.dryRun !== true && !isNoop
  if (options.format === 'json') {
    terminal.stdout.write(`${JSON.stringify({ command: name, isDone, ...inspection }, undefined, 2)}\n`)
  } else {
    const notes = mismatches(inspection, config)
    const message = isNoop ? noop?.message : options.dryRun === true ? would : did
    const first = `${formatKey(key)} ${message}\n\n`
    const text =
      first + formatInspection(inspection, paintFor(terminal)) + notes.map((note) => `Note: ${note}\n`).join('')
    terminal.stdout.write(wrapped(text, columnsOf(terminal.stdout)))
  }
  return isNoop ? EXIT.no : EXIT.fine
}

/** The policies that limiters have registered for a prefix, as texts. */
async function registeredTexts({ reader }: Connection, prefix: string): Promise<readonly string[]> {
  return (await reader.find({ prefix, policies: [], key: prefix })).registeredPolicies
}

/**
 * Asks for confirmation of a change that affects all callers. Without a terminal, `--yes` is
 * required.
 */
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
