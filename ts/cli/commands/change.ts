import { Command } from 'commander'
import { overriddenPolicies } from '../../api/override.js'
import { withoutWarnings } from '../../input/duration.js'
import type { ExitCode } from '../exit-codes.js'
import { asUsageError, usageError } from '../failure.js'
import { formatLength } from '../format.js'
import { collect, durationOption } from '../redis/connect/options.js'
import { type MutateOptions, type Mutation, mutate, withMutateOptions } from '../redis/mutate.js'
import { listed, numbersOf, policySetOfTier } from '../redis/policies.js'
import type { Terminal } from '../terminal.js'

interface ChangeOptions extends MutateOptions {
  /** In milliseconds. */
  readonly for: number
  readonly numbers: readonly string[]
}

/** A command that changes a key. */
interface Change {
  readonly name: string
  readonly summary: string
  readonly description: string
  /** Adds the options of this command alone, and its examples. */
  readonly complete?: (command: Command) => Command
  readonly mutationOf: (options: ChangeOptions) => Omit<Mutation, 'name'>
}

const CHANGES: readonly Change[] = [
  {
    name: 'reset',
    summary: 'make a key fresh, and end its block; its override stays',
    description: 'Makes a key fresh, and ends its block; an override stays. Same as limiter.reset.',
    complete: (command) =>
      command.addHelpText('after', '\nExample:\n  npx tollgate-cli reset --prefix api --key user:42'),
    mutationOf: () => ({
      messages: ['has been reset', 'would be reset'],
      noop: {
        applies: ({ states, holdsAny }) => states.length === 0 && !holdsAny,
        message: 'was already fresh',
      },
      prepare: () => (limiter, key) => limiter.reset(key),
    }),
  },
  {
    name: 'block',
    summary: 'refuse all calls on a key for a time',
    description: 'Refuses every call on a key for a time, even if its limit has units left. Same as limiter.block.',
    complete: (command) =>
      command
        .addOption(durationOption('--for <duration>', "for how long: '10m', '1h', '30d'").makeOptionMandatory())
        .addHelpText(
          'after',
          `
Examples:
  npx tollgate-cli block --prefix api --key user:42 --for 10m
  npx tollgate-cli block --prefix login --key ip=192.0.2.1 --for 1d`,
        ),
    mutationOf: ({ for: ms }) => {
      const blocked = `blocked for ${formatLength(ms)}`
      return {
        messages: [`has been ${blocked}`, `would be ${blocked}`],
        refusesCalls: true,
        prepare: () => (limiter, key) => withoutWarnings(() => limiter.block(key, ms)),
      }
    },
  },
  {
    name: 'unblock',
    summary: 'end the block of a key',
    description: 'Ends the block of a key. Same as limiter.unblock.',
    mutationOf: () => ({
      messages: ['is no longer blocked', 'would no longer be blocked'],
      noop: {
        applies: ({ states }) => !states.some(({ blockedForMs }) => blockedForMs !== undefined),
        message: 'was not blocked',
      },
      prepare: () => (limiter, key) => limiter.unblock(key),
    }),
  },
  {
    name: 'override',
    summary: 'override the numbers of a policy for a key, for a time',
    description: 'Overrides the numbers of a policy for a key, for a time, in all processes. Same as limiter.override.',
    complete: (command) =>
      command
        .requiredOption('--numbers <numbers>', 'the numbers to override', collect)
        .addOption(durationOption('--for <duration>', "for how long: '1h', '30d'").makeOptionMandatory())
        .addHelpText(
          'after',
          `
Numbers:
  The numbers to override, written as in a policy: --numbers 'limit=500 burst=50'. For several policies, start with the \
policy's name, once for each: --numbers 'daily limit=9000' --numbers 'burst limit=20'.
  With tiers, --tier is the one whose numbers complete the override. It then decides the calls of the key in all tiers.

Examples:
  npx tollgate-cli override --prefix api --key customer:7 --numbers limit=500 --for 30d
  npx tollgate-cli override --prefix plans --key customer:7 --tier pro --numbers limit=500 --for 30d`,
        ),
    mutationOf: ({ for: ttl, numbers: texts }) => {
      const description = `an override for ${formatLength(ttl)}`
      return {
        messages: [`has ${description}`, `would have ${description}`],
        refusesCalls: true,
        needsNumbers: true,
        prepare: (config, tier) => {
          const policySet = policySetOfTier(config, tier)
          if (policySet === undefined) {
            throw usageError(`override needs --tier, whose numbers complete the override: ${listed(config.tiers)}`)
          }
          const numbers = numbersOf(texts, policySet)
          // The units of durations have been checked before, with a warning.
          asUsageError('--numbers', () => withoutWarnings(() => overriddenPolicies(policySet, numbers)))
          const options = { ttl, ...(tier === undefined ? {} : { tier }) } as { ttl: number }
          return (limiter, key) => withoutWarnings(() => limiter.override(key, numbers, options))
        },
      }
    },
  },
  {
    name: 'clear-override',
    summary: 'remove the override of a key',
    description: 'Removes the override of a key. Same as limiter.clearOverride.',
    mutationOf: () => ({
      messages: ['no longer has an override', 'would no longer have an override'],
      noop: {
        applies: ({ states }) => !states.some(({ override }) => override !== undefined),
        message: 'had no override',
      },
      prepare: () => (limiter, key) => limiter.clearOverride(key),
    }),
  },
]

/** The commands that change a key, in the order of the help. */
export const changeCommands = CHANGES.map(({ name, summary, description, complete, mutationOf }) => {
  return (terminal: Terminal, done: (code: ExitCode) => void) => {
    const command = withMutateOptions(new Command(name).summary(summary).description(description))
    return (complete?.(command) ?? command).action(async (url: string | undefined, options: ChangeOptions) => {
      done(await mutate(url, options, terminal, { name, ...mutationOf(options) }))
    })
  }
})
