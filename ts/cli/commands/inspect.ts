import { Command } from 'commander'
import { EXIT, type ExitCode } from '../exit-codes.js'
import { usageError } from '../failure.js'
import { usageNotes } from '../redis/check-usage.js'
import { withRedis } from '../redis/connect/connection.js'
import {
  collect,
  durationOption,
  type RedisCommandOptions,
  withEndpointOptions,
  withKeyOptions,
  withPolicyOptions,
} from '../redis/connect/options.js'
import { formatInspection } from '../redis/format-inspection.js'
import { holdsAny, inspectKey, mismatches } from '../redis/inspect.js'
import { configOf, type PolicyOptions } from '../redis/policies.js'
import { printResult, type Terminal } from '../terminal.js'

interface InspectOptions extends RedisCommandOptions, PolicyOptions {
  readonly key: readonly string[]
  readonly tag?: string
  readonly name?: readonly string[]
  readonly scan: number | false
}

const HELP = `
What it prints:
  The charged units and, for rates, the numbers with which the state was written; blocks, bans and overrides; open \
reservations and permits; the number of remembered ids; the decision on a call now, if the policies are known: given, \
or registered by limiters. With tiers, the decision needs --tier.
  A key without state under the known names is searched for under all policies and hash tags, with SCAN.
  It changes nothing, not even how long a key is kept.
  Exit code 1: nothing of the key was found.

Examples:
  npx tollgate-cli inspect redis://localhost --prefix api --key user:42
  npx tollgate-cli inspect --prefix api --key user:42 --policy 'gcra limit=100 period=1m burst=20'
  npx tollgate-cli inspect --prefix login --key ip=192.0.2.1 --key account=ann`

export function inspectCommand(terminal: Terminal, done: (code: ExitCode) => void): Command {
  const command = new Command('inspect')
    .summary('show the state of a key: used units, blocks, overrides, reservations')
    .description('Shows the state of a key. Read-only.')
  withPolicyOptions(withKeyOptions(withEndpointOptions(command)), '; default: those that limiters have registered')
    .option('--name <policy>', 'the name of one of several policies; may be given several times', collect)
    .addOption(
      durationOption(
        '--scan <duration>',
        'maximum time for scanning all keys, if the key has no state under the known names',
      ).default(5_000, '5s'),
    )
    .option('--no-scan', 'do not scan all keys')
    .addHelpText('after', HELP)
    .action(async (url: string | undefined, options: InspectOptions) => {
      const config = configOf(options)
      if (config !== undefined && options.name !== undefined) {
        throw usageError('--name and --policy or --policies exclude each other: policies have names already')
      }
      const search = { given: config, names: options.name, scanMs: options.scan === false ? 0 : options.scan }
      const inspection = await withRedis(url, options, terminal, (connection) =>
        inspectKey(connection, options, search),
      )
      const notes = [...(config === undefined ? [] : mismatches(inspection, config)), ...usageNotes(inspection, config)]
      printResult(terminal, options.format, inspection, (paint) => formatInspection(inspection, paint, notes))
      done(inspection.states.length === 0 && !holdsAny(inspection) ? EXIT.no : EXIT.fine)
    })
  return command
}
