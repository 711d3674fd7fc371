/** The command's exit codes: see {@link EXIT_CODES_HELP}. docs/command-line.md lists them, too. */
export const EXIT = { fine: 0, no: 1, usage: 2, outside: 3, defect: 70 } as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** For the help. Ctrl-C is reported by the signal, as shells expect. */
export const EXIT_CODES_HELP = `
Exit codes:
  0   success
  1   negative result: a checked condition does not hold, or a key has no state
  2   wrong usage: an unknown option, an invalid policy, a prefix, policy or key that matches nothing
  3   environment failure: a file cannot be read, a log is empty, Redis does not answer
  70  a bug in tollgate: please report it
  130 interrupted (Ctrl-C)`
