/** Starts a real Redis server for the benchmark, without persistence. */
import { spawn } from 'node:child_process'
import { tmpdir } from 'node:os'
import { createInterface } from 'node:readline'
import { Redis } from 'ioredis'
import { freePort } from '../../../scripts/free-port.mjs'
import { end, failureOf, minded } from './children.mjs'

/** @typedef {Awaited<ReturnType<typeof startRedis>>} RedisServer */

/** @param {readonly string[]} settings Further command line arguments. */
export async function startRedis(settings = []) {
  const port = await freePort()
  const plain = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', tmpdir()]
  const words = [...plain, ...settings]
  const child = minded(spawn('redis-server', words, { stdio: ['ignore', 'pipe', 'ignore'] }))
  const failure = failureOf(child, 'redis-server must be installed, and begin (Debian: apt-get install redis-server)')
  // After the race the server is ready, and its later exit needs no handler.
  failure.catch(() => {})
  try {
    await Promise.race([failure, ready(child)])
  } catch (error) {
    await end(child)
    throw error
  }
  const admin = new Redis(port, '127.0.0.1')
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    version: async () => fieldOf(await admin.info('server'), /^redis_version:(\S+)/m),
    // Scripts stay loaded.
    flush: () => admin.flushall(),
    /** Sends a command to the server. */
    command: (name, ...args) => admin.call(name, args),
    usage: () => usage(admin),
    async stop() {
      admin.disconnect()
      await end(child)
    },
  }
}

/** The server's usage so far: `cpuMicros`, and the number of scripts. */
async function usage(admin) {
  const cpu = await admin.info('cpu')
  const seconds = ['user', 'sys'].map((kind) => Number(fieldOf(cpu, new RegExp(`^used_cpu_${kind}:(\\S+)`, 'm'))))
  const commands = await admin.info('commandstats')
  const scripts = [...commands.matchAll(/^cmdstat_(?:evalsha|eval|fcall):calls=(\d+)/gm)]
  return {
    cpuMicros: (seconds[0] + seconds[1]) * 1e6,
    scripts: scripts.reduce((sum, [, calls]) => sum + Number(calls), 0),
  }
}

function fieldOf(info, pattern) {
  return pattern.exec(info)?.[1]
}

async function ready(child) {
  const lines = createInterface(child.stdout)
  for await (const line of lines) {
    if (line.includes('Ready to accept connections')) break
  }
  // A full pipe would block the server.
  child.stdout.resume()
}
