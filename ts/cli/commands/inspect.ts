import { Command, Option } from 'commander'
import { EXIT, type ExitCode } from '../exit-codes.js'
import { wrongUsage } from '../failure.js'
import { withRedis } from '../redis/connect/connection.js'
import {
  type CommonOptions,
  collected,
  lengthOfTime,
  parsed,
  withKey,
  withPlace,
  withPolicies,
} from '../redis/connect/options.js'
import { usageInWords } from '../redis/expected.js'
import { look, mismatches } from '../redis/inspect.js'
import { enforcedOf, type PolicyOptions } from '../redis/policies.js'
import { lookInWords } from '../redis/print.js'
import type { Terminal } from '../terminal.js'

interface InspectOptions extends CommonOptions, PolicyOptions {
  readonly key: readonly string[]
  readonly tag?: string
  readonly name?: readonly string[]
  readonly scan: number | false
}

const HELP = `
What it tells:
  Without a policy: what the state by itself says, which is what is on the books, and of rates also the numbers that
  wrote it; blocks and overrides; open reservations. With the limiter's policies also what a call would be told now.
  It changes nothing, not even how long a key is kept.
  Exit code 1: nothing is kept of the key that counts, it is as if never used.

Examples:
  npx tollgate inspect redis://localhost --prefix api --key user:42
  npx tollgate inspect --prefix api --key user:42 --policy 'gcra limit=100 period=1m burst=20'
  npx tollgate inspect --prefix login --policies login.json --key ip=192.0.2.1 --key account=ann`

/** `tollgate inspect`: how a key stands. */
export function inspectCommand(terminal: Terminal, done: (code: ExitCode) => void): Command {
  const command = new Command('inspect')
    .summary('tell how a key stands: what is used, blocks, overrides, reservations')
    .description('Tells how a key stands. It only looks.')
  withPolicies(withKey(withPlace(command)), ': tells what calls would be told')
    .option('--name <policy>', 'the name of one of several policies; may be given several times', collected)
    .addOption(
      new Option('--scan <duration>', 'for how long to go through all keys, if no key has the names known')
        .default(5_000, '5s')
        .argParser(parsed(lengthOfTime)),
    )
    .option('--no-scan', 'do not go through all keys')
    .addHelpText('after', HELP)
    .action(async (url: string | undefined, options: InspectOptions) => {
      const enforced = enforcedOf(options)
      if (enforced !== undefined && options.name !== undefined) {
        throw wrongUsage('--name and --policy or --policies exclude each other: policies have their names')
      }
      const search = { names: options.name, scanMs: options.scan === false ? 0 : options.scan }
      const seen = await withRedis(url, options, terminal, (connection) => look(connection, options, enforced, search))
      if (options.format === 'json') {
        terminal.stdout.write(`${JSON.stringify(seen, undefined, 2)}\n`)
      } else {
        const notes = [...(enforced === undefined ? [] : mismatches(seen, enforced)), ...usageInWords(seen, enforced)]
        terminal.stdout.write(lookInWords(seen) + notes.map((note) => `Note: ${note}\n`).join(''))
      }
      done(seen.states.length === 0 && seen.reservations === undefined ? EXIT.no : EXIT.fine)
    })
  return command
}
