/** What the command's exit codes mean. `--help` and docs/command-line.md list them. */
export const EXIT = {
  /** What was asked for has been done, or told. */
  fine: 0,
  /** The answer is no: what an option asked to be checked does not hold, or nothing (to take away) is kept of a key. */
  no: 1,
  /** The command line, a policy or a file of policies is wrong, or fits nothing in Redis or in the log. */
  usage: 2,
  /** Something outside failed: a file that cannot be read, a Redis that does not answer. */
  outside: 3,
  /** A defect of tollgate. */
  defect: 70,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** For the help. Ctrl-C is told by the signal, as shells expect it. */
export const EXIT_CODES_HELP = `
Exit codes:
  0   fine
  1   the answer is no: what an option asked to be checked does not hold, nothing is kept of a key
  2   wrong usage: an unknown option, a policy that cannot be, a prefix, policy or key that fits nothing there
  3   something outside failed: a file cannot be read, a log is empty, Redis does not answer
  70  a defect of tollgate: please report it
  130 interrupted (Ctrl-C)`
