import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Below the ephemeral ports, because a client that tries a missing server there may be connected to
 * itself. And low enough for the bus of a cluster.
 */
const [FIRST, LAST] = [10_000, 22_000]

/** The distance from a server's port to that of its cluster bus. */
const BUS = 10_000

const given = new Set<number>()

/** A free local port whose cluster bus port is free, too. */
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
