/** The command's exit codes. `--help` and docs/command-line.md list them. */
export const EXIT = {
  /** The command did what was asked. */
  fine: 0,
  /**
   * A negative result: a checked condition does not hold, or a key has no state to show or to
   * remove.
   */
  no: 1,
  /**
   * The command line or a file of policies is invalid, or does not fit the log or the keys in
   * Redis.
   */
  usage: 2,
  /**
   * The environment failed: for example a file that cannot be read, or a Redis that does not
   * answer.
   */
  outside: 3,
  /** A bug in tollgate. */
  defect: 70,
} as const

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
