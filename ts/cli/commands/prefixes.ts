import { Command } from 'commander'
import { EXIT, type ExitCode } from '../exit-codes.js'
import { withRedis } from '../redis/connect/connection.js'
import { durationOption, type RedisOptions, withRedisOptions } from '../redis/connect/options.js'
import { formatPrefixes, listPrefixes } from '../redis/prefixes.js'
import { printResult, type Terminal } from '../terminal.js'

interface PrefixesOptions extends RedisOptions {
  /** In milliseconds. */
  readonly for: number
}

const HELP = `
What it prints:
  The prefixes of the keys that limiters wrote, the number of these keys, and their policies. Limiters that were called \
in the last 90 minutes have registered the numbers of their policies; of others the names and algorithms are shown.
  It scans the names of all keys, with SCAN.
  Exit code 1: no key is that of a limiter.

Examples:
  npx tollgate-cli prefixes redis://localhost
  npx tollgate-cli prefixes --for 1m --format json`

export function prefixesCommand(terminal: Terminal, done: (code: ExitCode) => void): Command {
  const command = new Command('prefixes')
    .summary('list the prefixes of limiters, with their policies')
    .description('Lists the prefixes of limiters. Read-only.')
  return withRedisOptions(command)
    .addOption(durationOption('--for <duration>', 'maximum time for scanning keys').default(5_000, '5s'))
    .addHelpText('after', HELP)
    .action(async (url: string | undefined, options: PrefixesOptions) => {
      const { server, list } = await withRedis(url, options, terminal, async (connection) => {
        return { server: connection.name, list: await listPrefixes(connection, options.for) }
      })
      printResult(terminal, options.format, { server, ...list }, (_, columns) => formatPrefixes(server, list, columns))
      done(list.prefixes.length === 0 ? EXIT.no : EXIT.fine)
    })
}
