import { readdirSync, readlinkSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** What a process holds. */
export interface Resources {
  readonly sockets: number
  readonly threads: number
  /** In use by JavaScript, after a collection, in MiB. */
  readonly heap: number
  /** Resident, in MiB. */
  readonly resident: number
}

/** What a process may come to hold once it has what it needs: sockets and threads must not, memory is never quite the same. In MiB. */
const [MOST_HEAP, MOST_RESIDENT] = [2, 24]

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

/** What this process holds now. It reads Linux's /proc. */
export function resources(): Resources {
  collectGarbage()
  const { heapUsed, rss } = process.memoryUsage()
  return {
    sockets: sockets(),
    threads: readdirSync('/proc/self/task').length,
    heap: heapUsed / 2 ** 20,
    resident: rss / 2 ** 20,
  }
}

/** What a process holds more than before, and what of that is a leak. */
export function leaked(
  before: Resources,
  after: Resources,
): { readonly note: string; readonly broken: readonly string[] } {
  const more = (what: keyof Resources) => after[what] - before[what]
  const broken = [
    ...(more('sockets') > 0 ? [`${more('sockets')} sockets leaked`] : []),
    ...(more('threads') > 0 ? [`${more('threads')} threads leaked`] : []),
    ...(more('heap') > MOST_HEAP ? [`${more('heap').toFixed(1)} MiB of heap leaked`] : []),
    ...(more('resident') > MOST_RESIDENT ? [`${more('resident').toFixed(1)} MiB resident leaked`] : []),
  ]
  const memory = `heap ${more('heap').toFixed(1)} MiB, resident ${more('resident').toFixed(1)} MiB more`
  return { note: `${more('sockets')} sockets, ${more('threads')} threads, ${memory}`, broken }
}

/** Waits until no more sockets are open than before, or gives up; and tells how many are. */
export async function socketsSettle(before: number): Promise<number> {
  for (let tries = 0; tries < 100 && sockets() > before; tries++) {
    await sleep(20)
  }
  return sockets()
}

export function sockets(): number {
  return readdirSync('/proc/self/fd').filter((name) => linkOf(name).startsWith('socket:')).length
}

function linkOf(name: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${name}`)
  } catch {
    // The one that the folder was read with.
    return ''
  }
}
