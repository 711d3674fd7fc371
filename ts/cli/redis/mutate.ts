import { once } from 'node:events'
import { createInterface } from 'node:readline/promises'
import { type Command, Option } from 'commander'
import { GLOBAL } from '../../policies/key-dimension.js'
import { EXIT, type ExitCode } from '../exit-codes.js'
import { CommandFailure, checked, wrongUsage } from '../failure.js'
import type { Terminal } from '../terminal.js'
import { type AnyLimiter, withRedis } from './connect/connection.js'
import { type CommonOptions, lengthOfTime, parsed, withKey, withPlace, withPolicies } from './connect/options.js'
import { type Before, expectUse } from './expected.js'
import { look, mismatches } from './inspect.js'
import { type Enforced, keyOf, neededEnforced, type PolicyOptions } from './policies.js'
import { keyInWords, lookInWords } from './print.js'

/** The options of commands that change a key. */
export interface ActOptions extends CommonOptions, PolicyOptions {
  readonly key: readonly string[]
  readonly tag?: string
  readonly dryRun?: true
  readonly yes?: true
  readonly force?: true
  /** In milliseconds. */
  readonly scan: number
}

/** What a command does to a key. */
export interface Act {
  readonly name: string
  /** In words, behind the key: what has been done, and what would be. */
  readonly words: readonly [did: string, would: string]
  /** Whether there is nothing to do, as what was kept of the key tells; and that, in words. */
  readonly idle?: { readonly isSo: (before: Before) => boolean; readonly words: string }
  /** Whether it refuses calls: of all callers, if the key counts all calls together. */
  readonly isHarsh?: boolean
  /** What is done, for those policies: whatever can be wrong is wrong before anything is asked. */
  readonly prepare: (enforced: Enforced) => (limiter: AnyLimiter, key: string) => Promise<unknown>
}

const CHECK_HELP = `
What is looked at first:
  Whether the prefix is used with the policies given: the names of the key in Redis tell, or those of other keys of the
  prefix, which are looked for by SCAN, for no longer than --scan, and no further than needed. Otherwise nothing is done
  (exit code 2): a wrong algorithm or prefix would change a key that nobody asks for. --force skips this, for a key that
  is to be changed before the limiter's first call.
  Exit code 1: there was nothing to take away: no block, no override, nothing kept of the key.`

/** Adds what all commands take that change a key. */
export function withAct(command: Command): Command {
  return withPolicies(withKey(withPlace(command)), '')
    .option('--dry-run', 'tell what would be done, and do nothing')
    .option('--yes', 'do not ask: for what concerns the calls of all callers')
    .option('--force', 'do not look whether the prefix is used with these policies: before the first call on it')
    .addOption(
      new Option('--scan <duration>', 'for how long to go through all keys, if the key itself does not show that')
        .default(5_000, '5s')
        .argParser(parsed(lengthOfTime)),
    )
    .addHelpText('after', CHECK_HELP)
}

/** Does what a command says, by an ordinary limiter, and tells how the key stands then. */
export async function act(
  url: string | undefined,
  options: ActOptions,
  terminal: Terminal,
  { name, words: [did, would], idle, isHarsh = false, prepare }: Act,
): Promise<ExitCode> {
  const enforced = neededEnforced(options, name)
  const run = prepare(enforced)
  const key = checked('--key', () => keyOf(options.key, enforced.compound))
  const isWide = isHarsh && typeof key !== 'string' && key[GLOBAL] === true
  if (isWide && options.yes !== true && options.dryRun !== true) {
    await confirm(terminal, `${name} ${GLOBAL} concerns every call of ${options.prefix}`)
  }
  const { seen, isIdle } = await withRedis(url, options, terminal, async (connection) => {
    const search = { names: undefined, scanMs: 0 }
    const before = await expectUse(connection, options, enforced, options.force === true ? undefined : options.scan)
    if (options.dryRun !== true) {
      const limiter = connection.limiter(enforced, options.prefix, options.tag)
      try {
        await run(limiter, key as string)
      } finally {
        await limiter.close()
      }
    }
    return { seen: await look(connection, options, enforced, search), isIdle: idle?.isSo(before) === true }
  })
  const isDone = options.dryRun !== true && !isIdle
  if (options.format === 'json') {
    terminal.stdout.write(`${JSON.stringify({ command: name, isDone, ...seen }, undefined, 2)}\n`)
  } else {
    const notes = mismatches(seen, enforced)
    const words = isIdle ? idle?.words : options.dryRun === true ? would : did
    const first = `${keyInWords(key)} ${words}\n\n`
    terminal.stdout.write(first + lookInWords(seen) + notes.map((note) => `Note: ${note}\n`).join(''))
  }
  return isIdle ? EXIT.no : EXIT.fine
}

/** Asks before what concerns all callers. Where nobody can be asked it must be said on the command line. */
async function confirm({ stdin, stderr }: Terminal, what: string): Promise<void> {
  if (stdin.isTTY !== true) {
    throw wrongUsage(`${what}: say --yes`)
  }
  const asking = createInterface({ input: stdin, output: stderr })
  try {
    // Ctrl-C and the end of what is typed close it, and leave the question without an answer.
    const closed = once(asking, 'close').then(() => '')
    const answer = await Promise.race([asking.question(`${what}. Go on? [y/N] `), closed])
    if (!/^y(es)?$/i.test(answer.trim())) {
      throw new CommandFailure('nothing was done', EXIT.no)
    }
  } finally {
    asking.close()
  }
}
