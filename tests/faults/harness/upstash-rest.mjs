/**
 * The REST interface of Upstash's Redis before a real Redis: JSON arrays for one command or for
 * several (https://upstash.com/docs/redis/features/restapi). While its Redis is unreachable, it accepts no
 * connections, as a service that is down. While its Redis does not answer, neither does it.
 */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { Redis } from 'ioredis'
import { freePort } from './servers.mjs'

export class UpstashRest {
  #redis
  /** The digests of scripts as Redis has them, by the digests that clients know. */
  #digests = new Map()
  #server

  constructor(port, target) {
    this.port = port
    this.#redis = new Redis(target.port, {
      retryStrategy: () => 50,
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false,
    })
    this.#redis.on('error', () => {})
    this.#redis.on('ready', () => this.#listen())
    this.#redis.on('close', () => this.#refuse())
  }

  static async start(target) {
    const rest = new UpstashRest(await freePort(), target)
    await once(rest.#redis, 'ready')
    return rest
  }

  async stop() {
    this.#redis.disconnect()
    this.#refuse()
  }

  #listen() {
    if (this.#server !== undefined) return
    this.#server = createServer((request, response) => this.#serve(request, response))
    // The usual backlog drops connections if 1,000 begin at once.
    this.#server.listen({ port: this.port, host: '127.0.0.1', backlog: 4_096 })
  }

  #refuse() {
    this.#server?.close()
    this.#server?.closeAllConnections()
    this.#server = undefined
  }

  async #serve(request, response) {
    const body = JSON.parse(await text(request))
    const isBase64 = request.headers['upstash-encoding'] === 'base64'
    const isPipeline = Array.isArray(body[0])
    const answers = await Promise.all((isPipeline ? body : [body]).map((words) => this.#answer(words, isBase64)))
    response.statusCode = !isPipeline && 'error' in answers[0] ? 400 : 200
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(isPipeline ? answers : answers[0]))
  }

  /** A script without the first line that only Upstash's servers know, or the digest of that script. */
  #plain(word) {
    const script = word.replace(/^#!lua.*/, '')
    if (script !== word) this.#digests.set(sha1(word), sha1(script))
    return this.#digests.get(script) ?? script
  }

  async #answer([name, ...words], isBase64) {
    try {
      const [first, ...rest] = words.map(String)
      const plain = first === undefined ? [] : [this.#plain(first), ...rest]
      return { result: coded(await this.#redis.callBuffer(name, ...plain), isBase64) }
    } catch (error) {
      return { error: error.message }
    }
  }
}

function sha1(text) {
  return createHash('sha1').update(text).digest('hex')
}

function coded(value, isBase64) {
  if (Buffer.isBuffer(value)) return isBase64 ? value.toString('base64') : value.toString()
  return Array.isArray(value) ? value.map((one) => coded(one, isBase64)) : value
}
