import { Command } from 'commander'
import type { ExitCode } from '../exit-codes.js'
import type { ExistingState } from '../redis/check-usage.js'
import type { CommandLimiter } from '../redis/connect/connection.js'
import { type MutateOptions, mutate, withMutateOptions } from '../redis/mutate.js'
import type { Terminal } from '../terminal.js'

const HELP = `
Example:
  npx tollgate reset --prefix api --key user:42`

/** `tollgate reset`: makes a key fresh. */
export function resetCommand(terminal: Terminal, done: (code: ExitCode) => void): Command {
  const command = new Command('reset')
    .summary('make a key fresh, and end its block; its override stays')
    .description('Makes a key fresh, and ends its block; an override stays. Same as limiter.reset.')
  return withMutateOptions(command)
    .addHelpText('after', HELP)
    .action(async (url: string | undefined, options: MutateOptions) => {
      const messages = ['has been reset', 'would be reset'] as const
      const prepare = () => (limiter: CommandLimiter, key: string) => limiter.reset(key)
      const applies = ({ states, reservations }: ExistingState) => states.length === 0 && reservations === 0
      const noop = { applies, message: 'was already fresh' }
      done(await mutate(url, options, terminal, { name: 'reset', messages, noop, prepare }))
    })
}
