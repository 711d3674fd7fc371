import { Command, Option } from 'commander'
import { withoutWarnings } from '../../input/duration.js'
import type { ExitCode } from '../exit-codes.js'
import { formatLength } from '../format.js'
import type { ExistingState } from '../redis/check-usage.js'
import type { CommandLimiter } from '../redis/connect/connection.js'
import { parseDuration, parser } from '../redis/connect/options.js'
import { type MutateOptions, mutate, withMutateOptions } from '../redis/mutate.js'
import type { Terminal } from '../terminal.js'

interface BlockOptions extends MutateOptions {
  /** In milliseconds. */
  readonly for: number
}

const HELP = `
Examples:
  npx tollgate block --prefix api --key user:42 --for 10m
  npx tollgate block --prefix login --key ip=192.0.2.1 --for 1d`

/** `tollgate block`: refuses all calls on a key for a time. */
export function blockCommand(terminal: Terminal, done: (code: ExitCode) => void): Command {
  const command = new Command('block')
    .summary('refuse all calls on a key for a time')
    .description('Refuses every call on a key for a time, even if its limit has units left. Same as limiter.block.')
  return withMutateOptions(command)
    .addOption(
      new Option('--for <duration>', "for how long: '10m', '1h', '30d'")
        .makeOptionMandatory()
        .argParser(parser(parseDuration)),
    )
    .addHelpText('after', HELP)
    .action(async (url: string | undefined, options: BlockOptions) => {
      const ms = options.for
      const blocked = `blocked for ${formatLength(ms)}`
      const messages = [`has been ${blocked}`, `would be ${blocked}`] as const
      const prepare = () => (limiter: CommandLimiter, key: string) => withoutWarnings(() => limiter.block(key, ms))
      done(await mutate(url, options, terminal, { name: 'block', messages, refusesCalls: true, prepare }))
    })
}

/** `tollgate unblock`: ends a block. */
export function unblockCommand(terminal: Terminal, done: (code: ExitCode) => void): Command {
  const command = new Command('unblock')
    .summary('end the block of a key')
    .description('Ends the block of a key. Same as limiter.unblock.')
  return withMutateOptions(command).action(async (url: string | undefined, options: MutateOptions) => {
    const messages = ['is no longer blocked', 'would no longer be blocked'] as const
    const prepare = () => (limiter: CommandLimiter, key: string) => limiter.unblock(key)
    const applies = ({ states }: ExistingState) => !states.some(({ blockedForMs }) => blockedForMs !== undefined)
    const noop = { applies, message: 'was not blocked' }
    done(await mutate(url, options, terminal, { name: 'unblock', messages, noop, prepare }))
  })
}
