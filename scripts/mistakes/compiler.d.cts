/** One message of the compiler. */
export interface CompilerAnswer {
  readonly code: number
  /** The line of the program, from 0. */
  readonly line: number
  /** The message, and the lines that explain it. */
  readonly text: string
}

/** The messages for each of some programs, by a version of TypeScript. */
export function compilerAnswers(
  programs: readonly string[],
  typescript?: object,
): readonly (readonly CompilerAnswer[])[]
