import { once } from 'node:events'
import { createServer, type Server } from 'node:net'

/**
 * Below the ephemeral ports, because a client that tries a missing server there may be connected to
 * itself. The ports of cluster buses follow, so that no bus has the port of another server.
 */
const [FIRST, LAST] = [10_000, 20_000]

/** The distance from a server's port to that of its cluster bus. */
const BUS = 10_000

/**
 * The ports that a process claims at once. It listens on the first of them as long as it lives, so
 * that no other process gives a port of the block away between the test that it is free and the
 * start of its server, nor while its server is restarted.
 */
const BLOCK = 25

/** The ports of claimed blocks that were not given yet. */
const claimed: number[] = []

/** A free local port whose cluster bus port is free, too. No other test process is given it. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = claimed.pop()
    if (port === undefined) {
      await claimBlock()
    } else if ((await isFree(port)) && (await isFree(port + BUS))) {
      return port
    }
  }
}

/** Claims a random block. */
async function claimBlock(): Promise<void> {
  for (;;) {
    const first = FIRST + BLOCK * Math.floor((Math.random() * (LAST - FIRST)) / BLOCK)
    const lock = await listen(first)
    if (lock !== undefined) {
      lock.unref()
      claimed.push(...Array.from({ length: BLOCK - 1 }, (_, index) => first + 1 + index))
      return
    }
  }
}

async function isFree(port: number): Promise<boolean> {
  const listener = await listen(port)
  listener?.close()
  await (listener && once(listener, 'close'))
  return listener !== undefined
}

/** A listener on a port, unless the port is taken. */
async function listen(port: number): Promise<Server | undefined> {
  const listener = createServer().listen(port, '127.0.0.1')
  try {
    await once(listener, 'listening')
    return listener
  } catch {
    return undefined
  }
}
