import { Command } from 'commander'
import { EXIT, type ExitCode } from '../exit-codes.js'
import { formatBlocked, listBlocked } from '../redis/blocked-keys.js'
import { withRedis } from '../redis/connect/connection.js'
import {
  type RedisCommandOptions,
  type SampleOptions,
  withEndpointOptions,
  withSampleOptions,
} from '../redis/connect/options.js'
import { formatNoKeys } from '../redis/usage.js'
import { printResult, type Terminal } from '../terminal.js'

type BlockedOptions = RedisCommandOptions & SampleOptions

const HELP = `
What it prints:
  Each block and each ban: the key as --key of other commands takes it, the kind, how long it lasts, and its end by the \
clock of Redis. A block is one of block, in a program or on the command line. A ban follows strikes; its number is that \
of its length: ban 2 has the second length of the limiter's ban.for.
  It runs SCAN, a page of each master in turn, within the bounds of the options, and writes nothing.
  Exit code 1: no key of the prefix is blocked.

Examples:
  npx tollgate-cli blocked redis://localhost --prefix api
  npx tollgate-cli blocked --prefix api --for 1m --format json`

export function blockedCommand(terminal: Terminal, done: (code: ExitCode) => void): Command {
  const command = new Command('blocked')
    .summary('list the blocked and the banned keys of a limiter')
    .description('Lists the blocked and the banned keys of a limiter. Read-only.')
  return withSampleOptions(withEndpointOptions(command).optionsGroup('The list:'))
    .addHelpText('after', HELP)
    .action(async (url: string | undefined, options: BlockedOptions) => {
      const query = { ...options, forMs: options.for }
      const list = await withRedis(url, options, terminal, (connection) => listBlocked(connection, query))
      const { usage } = list
      const note = usage?.policies.length === 0 ? `Note: ${formatNoKeys(options.prefix, list.server, usage)}\n` : ''
      printResult(terminal, options.format, list, (paint, columns) => formatBlocked(list, paint, columns) + note)
      done(list.blocked.length === 0 ? EXIT.no : EXIT.fine)
    })
}
