/** A real Redis server of the benchmark's own, which keeps nothing. */
import { spawn } from 'node:child_process'
import { tmpdir } from 'node:os'
import { createInterface } from 'node:readline'
import { Redis } from 'ioredis'
import { freePort } from '../../scripts/free-port.mjs'
import { end, failureOf, minded } from './children.mjs'

/** @typedef {Awaited<ReturnType<typeof startRedis>>} RedisServer */

/** @param {readonly string[]} settings Further words of its command line. */
export async function startRedis(settings = []) {
  const port = await freePort()
  const plain = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', tmpdir()]
  const words = [...plain, ...settings]
  const child = minded(spawn('redis-server', words, { stdio: ['ignore', 'pipe', 'ignore'] }))
  const failure = failureOf(child, 'redis-server must be installed, and begin (Debian: apt-get install redis-server)')
  // The race ends with the server ready; that it exits later is no news then.
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
    /** Sends it a command. */
    command: (name, ...args) => admin.call(name, args),
    usage: () => usage(admin),
    async stop() {
      admin.disconnect()
      await end(child)
    },
  }
}

/** What the server has spent so far: `cpuMicros`, and how many scripts it has run. */
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
  // A full pipe would stop the server.
  child.stdout.resume()
}
