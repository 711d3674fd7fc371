/** Captures the scripts that tollgate sends, with their keys and arguments. */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { load } from './load.mjs'
import { tollgate } from './redis-contenders.mjs'

/** The time to capture. */
const MILLIS = 60

/**
 * @typedef {object} Caught
 * @property {string} hash The script's.
 * @property {string} body The script.
 * @property {string[]} keys
 * @property {Buffer} request The only argument of the script.
 */

/**
 * Keeps calls in flight, and returns the `EVALSHA` of the most frequent batch size.
 *
 * @param {import('tollgate').Policy} policy
 * @param {string} prefix
 * @param {{ keys: readonly string[], inFlight: number }} calls
 * @param {import('./redis-server.mjs').RedisServer} redis
 * @returns {Promise<Caught>}
 */
export async function scriptFor(policy, prefix, calls, redis) {
  // A script that the server does not know is sent in full.
  await redis.command('SCRIPT', 'FLUSH')
  const tap = await startTap(redis.port)
  const { close, ...opened } = await tollgate(policy, prefix, tap.url, 1)
  const contender = { name: prefix, ...opened }
  try {
    await load(contender, { ...calls, millis: MILLIS })
    const body = String(commandsIn(tap.sent()).find(([name]) => String(name) === 'EVAL')[1])
    tap.forget()
    await load(contender, { ...calls, millis: MILLIS })
    const scripts = commandsIn(tap.sent()).filter(([name]) => String(name) === 'EVALSHA')
    const went = new Map()
    for (const [, , keys] of scripts) {
      went.set(Number(keys), (went.get(Number(keys)) ?? 0) + Number(keys))
    }
    const [[most]] = [...went].sort(([, one], [, other]) => other - one)
    const [, hash, , ...rest] = scripts.findLast(([, , keys]) => Number(keys) === most)
    return { hash: String(hash), body, keys: rest.slice(0, most).map(String), request: rest[most] }
  } finally {
    await close()
    tap.stop()
  }
}

/** A proxy that records the data from clients. */
async function startTap(port) {
  let sent = []
  const server = createServer((client) => {
    const upstream = connect(port, '127.0.0.1')
    client.on('data', (bytes) => sent.push(bytes))
    client.pipe(upstream).pipe(client)
    client.on('error', () => upstream.destroy())
    upstream.on('error', () => client.destroy())
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `redis://127.0.0.1:${server.address().port}`,
    sent: () => Buffer.concat(sent),
    forget: () => {
      sent = []
    },
    stop: () => server.close(),
  }
}

/** The commands in the data of a client: arrays of bulk strings. */
function commandsIn(bytes) {
  const commands = []
  let at = 0
  const number = () => {
    const end = bytes.indexOf('\r\n', at)
    const read = Number(bytes.subarray(at + 1, end))
    at = end + 2
    return read
  }
  while (at < bytes.length) {
    const words = []
    for (let left = number(); left > 0; left--) {
      const length = number()
      words.push(bytes.subarray(at, at + length))
      at += length + 2
    }
    commands.push(words)
  }
  return commands
}
