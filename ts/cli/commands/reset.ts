import { Command } from 'commander'
import type { ExitCode } from '../exit-codes.js'
import type { AnyLimiter } from '../redis/connect/connection.js'
import type { Before } from '../redis/expected.js'
import { type ActOptions, act, withAct } from '../redis/mutate.js'
import type { Terminal } from '../terminal.js'

const HELP = `
Example:
  npx tollgate reset --prefix api --key user:42 --policy 'gcra limit=100 period=1m burst=20'`

/** `tollgate reset`: makes a key as if never used. */
export function resetCommand(terminal: Terminal, done: (code: ExitCode) => void): Command {
  const command = new Command('reset')
    .summary('make a key as if never used, and end its block; its override stays')
    .description('Makes a key as if never used, and ends its block; an override stays. As limiter.reset does.')
  return withAct(command)
    .addHelpText('after', HELP)
    .action(async (url: string | undefined, options: ActOptions) => {
      const words = ['has been reset', 'would be reset'] as const
      const prepare = () => (limiter: AnyLimiter, key: string) => limiter.reset(key)
      const isSo = ({ states, reservations }: Before) => states.length === 0 && reservations === 0
      const idle = { isSo, words: 'was as if never used already' }
      done(await act(url, options, terminal, { name: 'reset', words, idle, prepare }))
    })
}
