/** A process of `holding.cjs`, which acquires permits all the time, and what it reports. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { HolderEvent, Interruption, ProcessTrace } from './trace.js'

export const LIMIT = 4
/** A signal is aborted a tenth before the end: longer than a busy machine delays an event loop. */
export const EXPIRES_MS = 3_000
export const KEYS = ['hot', 'hot', 'hot', 'a', 'b']

/** A process of `holding.cjs`. */
export class Holding {
  readonly #folder = mkdtempSync(join(tmpdir(), 'tollgate-permits-'))
  readonly #file: string
  readonly #process: ChildProcess
  readonly #exit: Promise<unknown>
  readonly #interruptions: Interruption[] = []

  constructor(url: string, workers = 0) {
    this.#file = join(this.#folder, 'events')
    writeFileSync(this.#file, '')
    const options = { url, file: this.#file, limit: LIMIT, ttlMs: EXPIRES_MS, keys: KEYS, workers }
    this.#process = fork(join(__dirname, 'holding.cjs'), [JSON.stringify(options)])
    this.#exit = once(this.#process, 'exit')
  }

  get trace(): ProcessTrace {
    const lines = readFileSync(this.#file, 'utf8').split('\n')
    // A process may be killed while it writes its last line.
    const events = lines.slice(0, -1).map((line) => JSON.parse(line) as HolderEvent)
    return { events, interruptions: this.#interruptions }
  }

  /** Stops the process for longer than its permits last. */
  async stopBeyondExpiry(): Promise<void> {
    const from = Date.now()
    this.#process.kill('SIGSTOP')
    await sleep(EXPIRES_MS + 500)
    this.#interruptions.push({ from, to: Date.now() })
    this.#process.kill('SIGCONT')
  }

  async kill(): Promise<void> {
    this.#interruptions.push({ from: Date.now(), to: Number.POSITIVE_INFINITY })
    this.#process.kill('SIGKILL')
    await this.#exit
  }

  async end(): Promise<void> {
    if (this.#process.connected) {
      this.#process.disconnect()
    }
    await this.#exit
  }

  /** Removes its file. */
  remove(): void {
    rmSync(this.#folder, { recursive: true })
  }
}
