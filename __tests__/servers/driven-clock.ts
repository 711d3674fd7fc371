import { execFileSync } from 'node:child_process'
import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'

/**
 * A process clock that stands still, and is set to the microsecond; the process starts with its
 * environment. Requires Linux and a C compiler.
 */
export class DrivenClock {
  readonly #library: string
  readonly #file: string
  #handle: number | undefined

  /**
   * @param folder - The folder of its files.
   *
   * @param micros - The initial time, in microseconds since the Unix epoch.
   */
  constructor(folder: string, micros: number) {
    this.#library = join(folder, 'driven-clock.so')
    this.#file = join(folder, 'micros')
    const { CC = 'cc' } = process.env
    execFileSync(CC, ['-O2', '-shared', '-fPIC', '-o', this.#library, join(__dirname, 'driven-clock.c')])
    writeFileSync(this.#file, bytesOf(micros))
    this.#handle = openSync(this.#file, 'r+')
  }

  /** The environment of the process. */
  get environment(): NodeJS.ProcessEnv {
    return { LD_PRELOAD: this.#library, TOLLGATE_CLOCK_FILE: this.#file }
  }

  /** Sets the clock, in microseconds since the Unix epoch. */
  set(micros: number): void {
    if (this.#handle !== undefined) {
      writeSync(this.#handle, bytesOf(micros), 0, 8, 0)
    }
  }

  /** Releases the clock's file. */
  close(): void {
    if (this.#handle !== undefined) {
      closeSync(this.#handle)
      this.#handle = undefined
    }
  }
}

function bytesOf(micros: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64LE(BigInt(micros))
  return bytes
}
