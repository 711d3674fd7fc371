/** Runs the built command line as users do: as a process. */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(__dirname, '..', '..')
const PROGRAM = join(ROOT, 'dist', 'cli', 'main.js')

export interface CommandResult {
  /** The exit code; `null` if a signal ended it. */
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** The environment, input and folder of a run. */
export interface RunOptions {
  readonly cwd?: string
  readonly stdin?: string | Uint8Array
  readonly env?: Readonly<Record<string, string>>
}

/** Starts `tollgate` with these arguments. */
export function start(words: readonly string[], { cwd = ROOT, env = {} }: RunOptions = {}): ChildProcess {
  if (!existsSync(PROGRAM)) {
    throw new Error('dist/cli/main.js is missing: npm run build:ts makes it')
  }
  // Settings of this machine's user must not matter.
  const { PATH = '' } = process.env
  return spawn(process.execPath, [PROGRAM, ...words], { cwd, env: { PATH, TZ: 'UTC', ...env }, stdio: 'pipe' })
}

/** Runs `tollgate` with these arguments until it exits. */
export async function tollgate(words: readonly string[], options: RunOptions = {}): Promise<CommandResult> {
  const child = start(words, options)
  const output = { stdout: '', stderr: '' }
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    output.stdout += text
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output.stderr += text
  })
  // A command that fails before it has read its input closes the pipe.
  child.stdin?.on('error', () => {})
  child.stdin?.end(options.stdin ?? '')
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => resolve({ code, signal, ...output }))
  })
}
