import { Command, Option } from 'commander'
import { overriddenPolicies } from '../../api/override.js'
import { withoutWarnings } from '../../input/duration.js'
import type { ExitCode } from '../exit-codes.js'
import { asUsageError, usageError } from '../failure.js'
import { formatLength } from '../format.js'
import type { ExistingState } from '../redis/check-usage.js'
import type { CommandLimiter } from '../redis/connect/connection.js'
import { collect, parseDuration, parser } from '../redis/connect/options.js'
import { type MutateOptions, mutate, withMutateOptions } from '../redis/mutate.js'
import { type LimiterConfig, listed, numbersOf, policySetOfTier } from '../redis/policies.js'
import type { Terminal } from '../terminal.js'

interface OverrideCommandOptions extends MutateOptions {
  readonly numbers: readonly string[]
  /** In milliseconds. */
  readonly for: number
}

const HELP = `
Numbers:
  The numbers to override, written as in a policy: --numbers 'limit=500 burst=50'. For several policies, start with the \
policy's name, once for each: --numbers 'daily limit=9000' --numbers 'burst limit=20'.
  With tiers, --tier is the one whose numbers complete the override. It then decides the calls of the key in all tiers.

Examples:
  npx tollgate override --prefix api --key customer:7 --numbers limit=500 --for 30d
  npx tollgate override --prefix plans --key customer:7 --tier pro --numbers limit=500 --for 30d`

/** `tollgate override`: sets an override on a key. */
export function overrideCommand(terminal: Terminal, done: (code: ExitCode) => void): Command {
  const command = new Command('override')
    .summary('override the numbers of a policy for a key, for a time')
    .description('Overrides the numbers of a policy for a key, for a time, in all processes. Same as limiter.override.')
  return withMutateOptions(command)
    .requiredOption('--numbers <numbers>', 'the numbers to override', collect)
    .addOption(
      new Option('--for <duration>', "for how long: '1h', '30d'")
        .makeOptionMandatory()
        .argParser(parser(parseDuration)),
    )
    .addHelpText('after', HELP)
    .action(async (url: string | undefined, options: OverrideCommandOptions) => {
      const ttl = options.for
      const prepare = (config: LimiterConfig, tier: string | undefined) => {
        const policySet = policySetOfTier(config, tier)
        if (policySet === undefined) {
          throw usageError(`override needs --tier, whose numbers complete the override: ${listed(config.tiers)}`)
        }
        const numbers = numbersOf(options.numbers, policySet)
        // The units of durations have been checked before, with a warning.
        asUsageError('--numbers', () => withoutWarnings(() => overriddenPolicies(policySet, numbers)))
        const call = { ttl, ...(tier === undefined ? {} : { tier }) }
        return (limiter: CommandLimiter, key: string) =>
          withoutWarnings(() => limiter.override(key, numbers, call as { ttl: number }))
      }
      const description = `an override for ${formatLength(ttl)}`
      const messages = [`has ${description}`, `would have ${description}`] as const
      done(
        await mutate(url, options, terminal, {
          name: 'override',
          messages,
          refusesCalls: true,
          needsNumbers: true,
          prepare,
        }),
      )
    })
}

/** `tollgate clear-override`: removes the override of a key. */
export function clearOverrideCommand(terminal: Terminal, done: (code: ExitCode) => void): Command {
  const command = new Command('clear-override')
    .summary('remove the override of a key')
    .description('Removes the override of a key. Same as limiter.clearOverride.')
  return withMutateOptions(command).action(async (url: string | undefined, options: MutateOptions) => {
    const messages = ['no longer has an override', 'would no longer have an override'] as const
    const prepare = () => (limiter: CommandLimiter, key: string) => limiter.clearOverride(key)
    const applies = ({ states }: ExistingState) => !states.some(({ override }) => override !== undefined)
    const noop = { applies, message: 'had no override' }
    done(await mutate(url, options, terminal, { name: 'clear-override', messages, noop, prepare }))
  })
}
