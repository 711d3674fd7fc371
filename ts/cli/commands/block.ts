import { Command, Option } from 'commander'
import { quietly } from '../../input/duration.js'
import type { ExitCode } from '../exit-codes.js'
import type { AnyLimiter } from '../redis/connect/connection.js'
import { lengthOfTime, parsed } from '../redis/connect/options.js'
import type { Before } from '../redis/expected.js'
import { lengthInWords } from '../redis/format.js'
import { type ActOptions, act, withAct } from '../redis/mutate.js'
import type { Terminal } from '../terminal.js'

interface BlockOptions extends ActOptions {
  /** In milliseconds. */
  readonly for: number
}

const HELP = `
Examples:
  npx tollgate block --prefix api --key user:42 --for 10m --policy 'gcra limit=100 period=1m burst=20'
  npx tollgate block --prefix login --key ip=192.0.2.1 --for 1d --policies login.json`

/** `tollgate block`: refuses a key's calls for a time. */
export function blockCommand(terminal: Terminal, done: (code: ExitCode) => void): Command {
  const command = new Command('block')
    .summary('refuse all calls on a key for a time')
    .description('Refuses every call on a key for a time, whatever room there is. As limiter.block does.')
  return withAct(command)
    .addOption(
      new Option('--for <duration>', "for how long: '10m', '1h', '30d'")
        .makeOptionMandatory()
        .argParser(parsed(lengthOfTime)),
    )
    .addHelpText('after', HELP)
    .action(async (url: string | undefined, options: BlockOptions) => {
      const ms = options.for
      const blocked = `blocked for ${lengthInWords(ms)}`
      const words = [`has been ${blocked}`, `would be ${blocked}`] as const
      const prepare = () => (limiter: AnyLimiter, key: string) => quietly(() => limiter.block(key, ms))
      done(await act(url, options, terminal, { name: 'block', words, isHarsh: true, prepare }))
    })
}

/** `tollgate unblock`: ends a block. */
export function unblockCommand(terminal: Terminal, done: (code: ExitCode) => void): Command {
  const command = new Command('unblock')
    .summary('end the block of a key')
    .description('Ends the block of a key. As limiter.unblock does.')
  return withAct(command).action(async (url: string | undefined, options: ActOptions) => {
    const words = ['is not blocked any more', 'would not be blocked any more'] as const
    const prepare = () => (limiter: AnyLimiter, key: string) => limiter.unblock(key)
    const isSo = ({ states }: Before) => !states.some(({ blockedForMs }) => blockedForMs !== undefined)
    const idle = { isSo, words: 'was not blocked' }
    done(await act(url, options, terminal, { name: 'unblock', words, idle, prepare }))
  })
}
