/** Runs the built command line as users do: as a process. */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(__dirname, '..', '..')
const PROGRAM = join(ROOT, 'dist', 'cli', 'main.js')

export interface Told {
  /** The exit code; `null` if a signal ended it. */
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** Where and with what a command runs. */
export interface Surroundings {
  readonly cwd?: string
  readonly stdin?: string | Uint8Array
  readonly env?: Readonly<Record<string, string>>
}

/** Starts `tollgate` with these words. */
export function start(words: readonly string[], { cwd = ROOT, env = {} }: Surroundings = {}): ChildProcess {
  if (!existsSync(PROGRAM)) {
    throw new Error('dist/cli/main.js is missing: npm run build:ts makes it')
  }
  // What this machine's user has set must make no difference.
  const { PATH = '' } = process.env
  return spawn(process.execPath, [PROGRAM, ...words], { cwd, env: { PATH, TZ: 'UTC', ...env }, stdio: 'pipe' })
}

/** Runs `tollgate` with these words to its end. */
export async function tollgate(words: readonly string[], surroundings: Surroundings = {}): Promise<Told> {
  const child = start(words, surroundings)
  const told = { stdout: '', stderr: '' }
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    told.stdout += text
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    told.stderr += text
  })
  // A command that fails before it has read all closes its end.
  child.stdin?.on('error', () => {})
  child.stdin?.end(surroundings.stdin ?? '')
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => resolve({ code, signal, ...told }))
  })
}
