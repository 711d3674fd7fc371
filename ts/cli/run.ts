import { Command, CommanderError } from 'commander'
import { blockedCommand } from './commands/blocked.js'
import { changeCommands } from './commands/change.js'
import { demoCommand, demoServerCommand } from './commands/demo.js'
import { inspectCommand } from './commands/inspect.js'
import { playgroundCommand } from './commands/playground.js'
import { prefixesCommand } from './commands/prefixes.js'
import { simulateCommand } from './commands/simulate.js'
import { topCommand } from './commands/top.js'
import { EXIT, EXIT_CODES_HELP, type ExitCode } from './exit-codes.js'
import { exitCodeOf, usageError } from './failure.js'
import { collect } from './redis/connect/options.js'
import { columnsOf, escapeControls, type Terminal, wrapped } from './terminal.js'

export type CommandFactory = (terminal: Terminal, done: (code: ExitCode) => void) => Command

/** The commands in their groups, in the order of the help. */
const COMMANDS: readonly (readonly [group: string, factories: readonly CommandFactory[]])[] = [
  ['Choose the numbers:', [simulateCommand, playgroundCommand, demoCommand]],
  ['See a limiter in Redis:', [prefixesCommand, inspectCommand, topCommand, blockedCommand]],
  ['Change a key in Redis:', changeCommands],
]

const DESCRIPTION = `Rate limits from the command line: replay logs through policies, and show or change the keys of a limiter.
simulate, prefixes, inspect, top and blocked are read-only.`

const EXAMPLES = `
Examples:
  npx tollgate-cli simulate access.log --policy 'gcra limit=100 period=1m burst=20' --key ip
  npx tollgate-cli inspect redis://localhost --prefix api --key user:42
  npx tollgate-cli help simulate`

/**
 * Runs a command line.
 *
 * @param words - The arguments after the program's name.
 * @returns The exit code. All output has been written.
 */
export async function run(words: readonly string[], terminal: Terminal): Promise<ExitCode> {
  let code: ExitCode = EXIT.fine
  const program = programOf(terminal, (exitCode) => {
    code = exitCode
  })
  try {
    await program.parseAsync(words, { from: 'user' })
    return code
  } catch (error) {
    return reportError(error, terminal)
  }
}

export function programOf(terminal: Terminal, done: (code: ExitCode) => void): Command {
  const program = new Command('tollgate-cli')
    .description(DESCRIPTION)
    .version(versionOf(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this')
    .helpCommand('help [command]', 'print the options of a command')
    .addHelpText('after', `${EXAMPLES}\n${EXIT_CODES_HELP}`)
    .showHelpAfterError('(tollgate-cli --help lists the commands)')
  for (const [group, factories] of COMMANDS) {
    program.commandsGroup(group)
    for (const make of factories) {
      program.addCommand(make(terminal, done))
    }
  }
  program.addCommand(demoServerCommand(terminal), { hidden: true })
  for (const command of [program, ...program.commands]) {
    refuseRepeats(command)
    command.exitOverride().configureOutput({
      writeOut: (text) => terminal.stdout.write(wrapped(text, helpWidth(terminal.stdout))),
      writeErr: (text) => terminal.stderr.write(wrapped(text, helpWidth(terminal.stderr))),
      outputError: (text, write) => write(text.replace(/^error: /, 'tollgate: ')),
      getOutHelpWidth: () => helpWidth(terminal.stdout),
      getErrHelpWidth: () => helpWidth(terminal.stderr),
    })
  }
  return program
}

/** Refuses an option that takes one value and is given several: the last one would silently replace the others. */
function refuseRepeats(command: Command): void {
  for (const option of command.options) {
    const takesOne = (option.required || option.optional) && option.parseArg !== collect
    let count = 0
    command.on(`option:${option.name()}`, () => {
      count++
      if (takesOne && count > 1) {
        throw usageError(`${option.long} is given twice: it takes one value, so remove one`)
      }
    })
  }
}

function helpWidth({ columns = 100 }: { readonly columns?: number }): number {
  return Math.min(columns, 120)
}

/** Prints an error: on one line if the user can correct it. */
function reportError(error: unknown, { stderr }: Terminal): ExitCode {
  if (error instanceof CommanderError) {
    // Commander has printed the help or the error already. Without a command it prints the help as an error.
    return error.exitCode === 0 ? EXIT.fine : EXIT.usage
  }
  const code = exitCodeOf(error)
  if (code === undefined) {
    stderr.write(`tollgate: a bug, please report it: ${error instanceof Error ? error.stack : String(error)}\n`)
    return EXIT.defect
  }
  stderr.write(wrapped(`tollgate: ${escapeControls((error as Error).message)}\n`, columnsOf(stderr)))
  return code
}

function versionOf(): string {
  // Two folders up from both ts/cli/ and dist/cli/.
  return (require('../../package.json') as { readonly version: string }).version
}
