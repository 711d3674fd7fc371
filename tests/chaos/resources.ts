import { readdirSync, readlinkSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** The resources of a process. */
export interface Resources {
  readonly sockets: number
  readonly threads: number
  /** In use by JavaScript, after a collection, in MiB. */
  readonly heap: number
  /** Resident, in MiB. */
  readonly resident: number
}

/**
 * The allowed growth of heap and resident memory in MiB, because memory is never quite constant.
 * Sockets and threads must not grow.
 */
const [MOST_HEAP, MOST_RESIDENT] = [2, 24]

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

/** The current resources of this process. Reads Linux's /proc. */
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

/** The growth of the resources, and the leaks in it. */
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

/**
 * Waits until no more sockets are open than before, or gives up. Returns the number of open
 * sockets.
 */
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
    // The descriptor that read the folder is closed already.
    return ''
  }
}
