import { TollgateError } from '../api/error.js'
import { EXIT, type ExitCode } from './exit-codes.js'

/** A failure that is the user's to mend: its message is all that is printed, without a stack. */
export class CommandFailure extends Error {
  constructor(
    message: string,
    readonly exitCode: ExitCode,
  ) {
    super(message)
  }
}

/** The command line asks for what cannot be. */
export function wrongUsage(message: string): CommandFailure {
  return new CommandFailure(message, EXIT.usage)
}

/** Something outside failed. */
export function failedOutside(message: string): CommandFailure {
  return new CommandFailure(message, EXIT.outside)
}

/** Runs what checks a user's value, and has its errors speak of where that value stands. */
export function checked<T>(where: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    if (TollgateError.is(error) && error.code.startsWith('INVALID_')) {
      throw wrongUsage(`${where}: ${error.message}`)
    }
    throw error
  }
}

/** The exit code for whatever was thrown; `undefined` for a defect. */
export function exitCodeOf(error: unknown): ExitCode | undefined {
  if (error instanceof CommandFailure) {
    return error.exitCode
  }
  if (TollgateError.is(error)) {
    return error.code.startsWith('INVALID_') ? EXIT.usage : EXIT.outside
  }
  return undefined
}
