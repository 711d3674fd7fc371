import { existsSync, readdirSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * The library's paths in the packages of Linux systems: some have a folder for the architecture.
 */
const LIBRARY_PATHS = ['/usr/lib', '/usr/lib64', '/usr/local/lib', '/opt/homebrew/lib']

/** The path of libfaketime, which `scripts/ensure-redis.mjs` installs. */
export function fakeTimeLibrary(): string {
  const folders = LIBRARY_PATHS.filter((place) => existsSync(place)).flatMap((place) => [
    place,
    ...readdirSync(place)
      .filter((name) => name.includes('-linux-'))
      .map((name) => join(place, name)),
  ])
  const files = folders.map((folder) => join(folder, 'faketime', 'libfaketime.so.1'))
  const found = files.find((file) => existsSync(file))
  if (found === undefined) {
    throw new Error('libfaketime must be installed (Debian, Ubuntu: apt-get install libfaketime)')
  }
  return found
}

/** A process clock that can be set at run time; the process starts with its environment. */
export class FakeTime {
  readonly #file: string

  /**
   * @param folder - The folder of its file.
   */
  constructor(folder: string) {
    this.#file = join(folder, 'clock')
  }

  /** The environment of the process. */
  get environment(): NodeJS.ProcessEnv {
    return {
      // libfaketime needs memory before it is ready, and jemalloc asks for the time before it is:
      // with the C library's allocator ahead of jemalloc's there is no such deadlock.
      LD_PRELOAD: `${fakeTimeLibrary()} libc.so.6`,
      FAKETIME_TIMESTAMP_FILE: this.#file,
      // Every request for the time reads the file, so that a step takes effect immediately.
      FAKETIME_NO_CACHE: '1',
      // Timers are not affected: a step changes the clock, not elapsed time.
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      DONT_FAKE_MONOTONIC: '1',
    }
  }

  /** Sets the clock a number of seconds ahead of this machine's, from now on. */
  async set(seconds: number): Promise<void> {
    const next = `${this.#file}.next`
    await writeFile(next, `${seconds < 0 ? '' : '+'}${seconds}\n`)
    // The write is atomic: half a line would be another time.
    await rename(next, this.#file)
  }
}
