import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Below the ports that systems give to outgoing connections: there, a client that tries a server that is
 * away may now and then be connected to itself. And low enough for the bus of a cluster.
 */
const [FIRST, LAST] = [10_000, 22_000]

/** How far above a server's port its cluster bus listens. */
const BUS = 10_000

const given = new Set<number>()

/** A port of this machine that nobody listens on, and neither on the one of its cluster bus. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST))
    if (!given.has(port) && (await isFree(port)) && (await isFree(port + BUS))) {
      given.add(port)
      return port
    }
  }
}

async function isFree(port: number): Promise<boolean> {
  const listener = createServer().listen(port, '127.0.0.1')
  try {
    await once(listener, 'listening')
    listener.close()
    await once(listener, 'close')
    return true
  } catch {
    return false
  }
}
