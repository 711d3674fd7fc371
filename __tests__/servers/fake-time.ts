import { existsSync, readdirSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Where the packages of Linux systems put the library: some below a folder for the machine's kind. */
const PLACES = ['/usr/lib', '/usr/lib64', '/usr/local/lib', '/opt/homebrew/lib']

/** The path of libfaketime, which `scripts/ensure-redis.mjs` installs. */
export function fakeTimeLibrary(): string {
  const folders = PLACES.filter((place) => existsSync(place)).flatMap((place) => [
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

/** A clock of a process that is begun with its environment: it can be set while the process runs. */
export class FakeTime {
  readonly #file: string

  /** @param folder - Where its file lies. */
  constructor(folder: string) {
    this.#file = join(folder, 'clock')
  }

  /** What the process is begun with. */
  get environment(): NodeJS.ProcessEnv {
    return {
      // libfaketime needs memory before it is ready, and jemalloc asks for the time before it is: with the C
      // library's allocator ahead of jemalloc's neither waits for the other.
      LD_PRELOAD: `${fakeTimeLibrary()} libc.so.6`,
      FAKETIME_TIMESTAMP_FILE: this.#file,
      // The file is read whenever the time is asked for, so that a step is in force at once.
      FAKETIME_NO_CACHE: '1',
      // Timers go on as they were: a clock is stepped, not time.
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      DONT_FAKE_MONOTONIC: '1',
    }
  }

  /** Sets the clock to so many seconds ahead of this machine's, from now on. */
  async set(seconds: number): Promise<void> {
    const next = `${this.#file}.next`
    await writeFile(next, `${seconds < 0 ? '' : '+'}${seconds}\n`)
    // At once: half a line would be another time.
    await rename(next, this.#file)
  }
}
