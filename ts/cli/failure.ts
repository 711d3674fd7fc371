import { TollgateError } from '../api/error.js'
import { EXIT, type ExitCode } from './exit-codes.js'

/** A failure that the user can correct. Only its message is printed, without a stack. */
export class CommandFailure extends Error {
  constructor(
    message: string,
    readonly exitCode: ExitCode,
  ) {
    super(message)
  }
}

export function usageError(message: string): CommandFailure {
  return new CommandFailure(message, EXIT.usage)
}

export function environmentError(message: string): CommandFailure {
  return new CommandFailure(message, EXIT.outside)
}

/** An object of entries that options give. Throws if a name occurs twice: its second value would replace the first. */
export function fromUniqueEntries<V>(
  entries: readonly (readonly [name: string, value: V])[],
  complaint: (name: string) => string,
): Record<string, V> {
  const names = new Set<string>()
  for (const [name] of entries) {
    if (names.has(name)) {
      throw usageError(complaint(name))
    }
    names.add(name)
  }
  return Object.fromEntries(entries)
}

/** Runs a check of a user's value. Its errors become usage errors that start with the place of the value. */
export function asUsageError<T>(where: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    if (TollgateError.is(error) && error.code.startsWith('INVALID_')) {
      throw usageError(`${where}: ${error.message}`)
    }
    throw error
  }
}

/** The exit code for an error; `undefined` for a bug. */
export function exitCodeOf(error: unknown): ExitCode | undefined {
  if (error instanceof CommandFailure) {
    return error.exitCode
  }
  if (TollgateError.is(error)) {
    return error.code.startsWith('INVALID_') ? EXIT.usage : EXIT.outside
  }
  return undefined
}
