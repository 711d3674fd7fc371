/** Prepares servers: unpacks each with its libraries, and checks its version. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../free-port.mjs'

// The packages of the tests.
const require = createRequire(new URL('../../__tests__/', import.meta.url))
const { Redis } = require('ioredis')
const { generate } = require('selfsigned')

const LIBRARIES = 'usr/lib/x86_64-linux-gnu'

/**
 * Prepares a server, and returns the path of the command that starts it.
 *
 * @throws if an archive is not available, or if its SHA-256 is wrong.
 */
export function obtain(server, archives, cache) {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    throw new Error(`the servers are programs for Linux on x86-64, and this is ${process.platform} on ${process.arch}`)
  }
  const folder = join(cache, server.name)
  // Unpacked each time, because an interrupted run may have left a broken folder. It takes a
  // second.
  rmSync(folder, { recursive: true, force: true })
  archives.unpack(server.archive, join(folder, 'archive'))
  mkdirSync(join(folder, 'bin'))
  // Debian's program becomes a server only by its name.
  const program = join(folder, 'bin', 'redis-server')
  cpSync(join(folder, 'archive', server.server), program)
  chmodSync(program, 0o755)
  return server.libraries === undefined ? program : withLibraries(server, program, archives, folder)
}

/**
 * A script that starts the program with the loader of its libraries, in the script's own process.
 */
function withLibraries(server, program, archives, folder) {
  const libraries = join(folder, 'libraries')
  for (const library of server.libraries) {
    archives.unpack(library, libraries)
  }
  const path = join(libraries, LIBRARIES)
  const args = [join(path, 'ld-linux-x86-64.so.2'), '--inhibit-cache', '--library-path', path, program]
  const script = join(folder, 'redis-server')
  writeFileSync(script, `#!/bin/sh\nexec ${args.map((word) => `'${word}'`).join(' ')} "$@"\n`)
  chmodSync(script, 0o755)
  return script
}

/**
 * Starts a server, and returns `{ product, version, hasTls }`. Valkey reports both its own version
 * and the Redis version that it is compatible with.
 */
export async function ask(path) {
  const info = await started(path, ['--port', '0'], (socket) => inform(socket))
  const field = (name) => new RegExp(`^${name}:(.*?)\r?$`, 'm').exec(info)?.[1]
  const valkey = field('valkey_version')
  const product = valkey ? 'Valkey' : 'Redis'
  return { product, version: valkey ?? field('redis_version'), hasTls: await speaksTls(path) }
}

/**
 * Whether it starts with TLS. The options alone do not show that, because TLS may be in a module
 * that is missing.
 */
async function speaksTls(path) {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-tls-'))
  const [certificate, key] = [join(folder, 'crt'), join(folder, 'key')]
  try {
    const made = await generate([{ name: 'commonName', value: 'localhost' }], { keyType: 'ec', algorithm: 'sha256' })
    writeFileSync(certificate, made.cert)
    writeFileSync(key, made.private)
    const files = ['--tls-cert-file', certificate, '--tls-key-file', key, '--tls-ca-cert-file', certificate]
    const args = ['--port', '0', '--tls-port', `${await freePort()}`, ...files]
    return await started(path, args, (socket) => inform(socket)).then(
      () => true,
      () => false,
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * Starts a server with the given arguments, and returns the result of `run` over its unix socket.
 */
async function started(path, options, run) {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-server-'))
  const socket = join(folder, 'redis.sock')
  const args = [...options, '--unixsocket', socket, '--save', '', '--dir', folder]
  const child = spawn(path, args, { stdio: 'ignore' })
  const ended = Promise.race([once(child, 'exit'), once(child, 'error')]).then(
    ([reason]) => {
      throw new Error(`the server does not start: ${reason?.message ?? reason}`)
    },
    (error) => {
      throw new Error(`the server does not start: ${error.message}`)
    },
  )
  try {
    return await Promise.race([ended, run(socket)])
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
      return await redis.info('server')
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
