import { Command, Option } from 'commander'
import { overridden } from '../../api/override.js'
import { quietly } from '../../input/duration.js'
import type { ExitCode } from '../exit-codes.js'
import { checked } from '../failure.js'
import type { AnyLimiter } from '../redis/connect/connection.js'
import { collected, lengthOfTime, parsed } from '../redis/connect/options.js'
import type { Before } from '../redis/expected.js'
import { lengthInWords } from '../redis/format.js'
import { type ActOptions, act, withAct } from '../redis/mutate.js'
import { type Enforced, numbersOf } from '../redis/policies.js'
import type { Terminal } from '../terminal.js'

interface OverrideOptions extends ActOptions {
  readonly numbers: readonly string[]
  /** In milliseconds. */
  readonly for: number
}

const HELP = `
Numbers:
  Those that are to differ, written as in a policy: --numbers 'limit=500 burst=50'. Of several policies behind the
  policy's name, once for each: --numbers 'daily limit=9000' --numbers 'burst limit=20'.

Example:
  npx tollgate override --prefix api --key customer:7 --numbers limit=500 --for 30d --policy 'gcra limit=100 period=1m'`

/** `tollgate override`: gives a key numbers of its own. */
export function overrideCommand(terminal: Terminal, done: (code: ExitCode) => void): Command {
  const command = new Command('override')
    .summary('give a key numbers of its own for a time')
    .description('Gives a key numbers of its own for a time, in all processes. As limiter.override does.')
  return withAct(command)
    .requiredOption('--numbers <numbers>', 'the numbers that are to differ', collected)
    .addOption(
      new Option('--for <duration>', "for how long: '1h', '30d'").makeOptionMandatory().argParser(parsed(lengthOfTime)),
    )
    .addHelpText('after', HELP)
    .action(async (url: string | undefined, options: OverrideOptions) => {
      const ttl = options.for
      const prepare = (enforced: Enforced) => {
        const numbers = numbersOf(options.numbers, enforced.compound)
        // What was given without a unit has been warned of.
        checked('--numbers', () => quietly(() => overridden(enforced.compound, numbers)))
        return (limiter: AnyLimiter, key: string) => quietly(() => limiter.override(key, numbers, { ttl }))
      }
      const own = `numbers of its own for ${lengthInWords(ttl)}`
      const words = [`has ${own}`, `would have ${own}`] as const
      done(await act(url, options, terminal, { name: 'override', words, isHarsh: true, prepare }))
    })
}

/** `tollgate clear-override`: takes a key's own numbers from it. */
export function clearOverrideCommand(terminal: Terminal, done: (code: ExitCode) => void): Command {
  const command = new Command('clear-override')
    .summary('take the numbers of its own from a key')
    .description('Takes the numbers of its own from a key. As limiter.clearOverride does.')
  return withAct(command).action(async (url: string | undefined, options: ActOptions) => {
    const words = ['has no numbers of its own any more', 'would have no numbers of its own any more'] as const
    const prepare = () => (limiter: AnyLimiter, key: string) => limiter.clearOverride(key)
    const isSo = ({ states }: Before) => !states.some(({ override }) => override !== undefined)
    const idle = { isSo, words: 'had no numbers of its own' }
    done(await act(url, options, terminal, { name: 'clear-override', words, idle, prepare }))
  })
}
