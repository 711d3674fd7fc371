import { Command, CommanderError } from 'commander'
import { blockCommand, unblockCommand } from './commands/block.js'
import { inspectCommand } from './commands/inspect.js'
import { clearOverrideCommand, overrideCommand } from './commands/override.js'
import { resetCommand } from './commands/reset.js'
import { simulateCommand } from './commands/simulate.js'
import { topCommand } from './commands/top.js'
import { EXIT, EXIT_CODES_HELP, type ExitCode } from './exit-codes.js'
import { exitCodeOf } from './failure.js'
import { printable, type Terminal } from './terminal.js'

/** A command's file makes one: `run` is given what the terminal is, and answers with the exit code. */
export type CommandMaker = (terminal: Terminal, done: (code: ExitCode) => void) => Command

/** The commands, each in a file of its own. */
const COMMANDS: readonly CommandMaker[] = [
  simulateCommand,
  inspectCommand,
  topCommand,
  resetCommand,
  blockCommand,
  unblockCommand,
  overrideCommand,
  clearOverrideCommand,
]

const DESCRIPTION = `Rate limits, looked at from outside: what a policy would have done, and what keys stand at.
Commands only look unless their name says otherwise.`

const EXAMPLES = `
Examples:
  npx tollgate simulate access.log --policy 'gcra limit=100 period=1m burst=20' --key ip
  npx tollgate inspect redis://localhost --prefix api --key user:42
  npx tollgate help simulate`

/**
 * Runs a command line to its end.
 *
 * @param words - The words behind the program's name.
 * @returns The exit code; whatever there was to say has been printed.
 */
export async function run(words: readonly string[], terminal: Terminal): Promise<ExitCode> {
  let code: ExitCode = EXIT.fine
  const program = programOf(terminal, (told) => {
    code = told
  })
  try {
    await program.parseAsync(words, { from: 'user' })
    return code
  } catch (error) {
    return failed(error, terminal)
  }
}

/** The program with all commands: also for those who check what pages say of it. */
export function programOf(terminal: Terminal, done: (code: ExitCode) => void): Command {
  const program = new Command('tollgate')
    .description(DESCRIPTION)
    .version(versionOf(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this')
    .helpCommand('help [command]', 'print what a command takes')
    .addHelpText('after', `${EXAMPLES}\n${EXIT_CODES_HELP}`)
    .showHelpAfterError('(tollgate --help tells what there is)')
  for (const make of COMMANDS) {
    program.addCommand(make(terminal, done))
  }
  for (const command of [program, ...program.commands]) {
    command.exitOverride().configureOutput({
      writeOut: (text) => terminal.stdout.write(text),
      writeErr: (text) => terminal.stderr.write(text),
      outputError: (text, write) => write(text.replace(/^error: /, 'tollgate: ')),
      getOutHelpWidth: () => Math.min(terminal.stdout.columns ?? 100, 120),
      getErrHelpWidth: () => Math.min(terminal.stderr.columns ?? 100, 120),
    })
  }
  return program
}

/** Prints why a command failed, on one line if it is the user's to mend. */
function failed(error: unknown, { stderr }: Terminal): ExitCode {
  if (error instanceof CommanderError) {
    // It has printed its help or its complaint. Without a command the help is the complaint.
    return error.exitCode === 0 ? EXIT.fine : EXIT.usage
  }
  const code = exitCodeOf(error)
  if (code === undefined) {
    stderr.write(`tollgate: a defect, please report it: ${error instanceof Error ? error.stack : String(error)}\n`)
    return EXIT.defect
  }
  stderr.write(`tollgate: ${printable((error as Error).message)}\n`)
  return code
}

function versionOf(): string {
  // Two folders up both from ts/cli/ and from dist/cli/.
  return (require('../../package.json') as { readonly version: string }).version
}
