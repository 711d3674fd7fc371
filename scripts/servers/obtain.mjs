/** Servers made ready to start: unpacked beside their libraries, and asked who they are. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'

const LIBRARIES = 'usr/lib/x86_64-linux-gnu'

/**
 * Makes a server ready, and gives the path to start it by.
 *
 * @throws if an archive cannot be had, or is not the one that was written down.
 */
export function obtain(server, archives, cache) {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    throw new Error(`the servers are programs for Linux on x86-64, and this is ${process.platform} on ${process.arch}`)
  }
  const folder = join(cache, server.name)
  // Anew each time: what an interrupted run left is not to be trusted, and it takes a second.
  rmSync(folder, { recursive: true, force: true })
  archives.unpack(server.archive, join(folder, 'archive'))
  mkdirSync(join(folder, 'bin'))
  // Debian's program becomes a server only by its name.
  const program = join(folder, 'bin', 'redis-server')
  cpSync(join(folder, 'archive', server.server), program)
  chmodSync(program, 0o755)
  return server.libraries === undefined ? program : withLibraries(server, program, archives, folder)
}

/** A script that starts the program by the loader of its libraries, in the script's own process. */
function withLibraries(server, program, archives, folder) {
  const libraries = join(folder, 'libraries')
  for (const library of server.libraries) {
    archives.unpack(library, libraries)
  }
  const path = join(libraries, LIBRARIES)
  const words = [join(path, 'ld-linux-x86-64.so.2'), '--inhibit-cache', '--library-path', path, program]
  const script = join(folder, 'redis-server')
  writeFileSync(script, `#!/bin/sh\nexec ${words.map((word) => `'${word}'`).join(' ')} "$@"\n`)
  chmodSync(script, 0o755)
  return script
}

/** Starts a server, and asks it: `{ product, version, hasTls }`. Valkey tells its own version, and a Redis's that it is like. */
export async function ask(path) {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-server-'))
  const socket = join(folder, 'redis.sock')
  const words = ['--port', '0', '--unixsocket', socket, '--save', '', '--dir', folder]
  const child = spawn(path, words, { stdio: 'ignore' })
  const ended = Promise.race([once(child, 'exit'), once(child, 'error')]).then(
    ([reason]) => {
      throw new Error(`the server does not start: ${reason?.message ?? reason}`)
    },
    (error) => {
      throw new Error(`the server does not start: ${error.message}`)
    },
  )
  try {
    const { info, hasTls } = await Promise.race([ended, inform(socket)])
    const field = (name) => new RegExp(`^${name}:(.*?)\r?$`, 'm').exec(info)?.[1]
    const valkey = field('valkey_version')
    return { product: valkey ? 'Valkey' : 'Redis', version: valkey ?? field('redis_version'), hasTls }
  } finally {
    ended.catch(() => undefined)
    if (child.exitCode === null && child.pid !== undefined) {
      child.kill('SIGKILL')
      await ended.catch(() => undefined)
    }
    rmSync(folder, { recursive: true, force: true })
  }
}

async function inform(socket) {
  const deadline = Date.now() + 10_000
  for (;;) {
    const redis = new Redis({ path: socket, lazyConnect: true, retryStrategy: null, maxRetriesPerRequest: 0 })
    redis.on('error', () => undefined)
    try {
      await redis.connect()
      // An option that it was built without is not known to it.
      const known = await redis.config('GET', 'tls-port')
      return { info: await redis.info('server'), hasTls: known.length > 0 }
    } catch (error) {
      if (Date.now() > deadline) {
        throw error
      }
      await sleep(20)
    } finally {
      redis.disconnect()
    }
  }
}
