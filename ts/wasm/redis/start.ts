import * as glue from '../../../generated/wasm/redis-engine.js'
import * as host from '../engine/host.js'
import { checkRandom } from '../engine/random.js'
import { Scratch } from '../engine/scratch.js'
import { moduleOf } from './module.js'

export interface RedisEngine {
  readonly scratch: Scratch
  /** The script and its digest. */
  readonly script: { readonly source: string; readonly digest: string }
}

let redisEngine: RedisEngine | undefined

/** Starts the engine for Redis at first use. @throws {TollgateError} `STORE_ERROR` without random numbers. */
export function startRedisEngine(): RedisEngine {
  if (redisEngine === undefined) {
    glue.setHost(host)
    const { memory } = glue.initSync({ module: moduleOf() })
    const script = { source: glue.scriptSource(), digest: glue.scriptDigest() }
    redisEngine = { scratch: new Scratch(glue, memory), script }
  }
  return redisEngine
}

let isSeeded = false

/** Draws the secret of hash functions before the first call. Not at the start: see {@link checkRandom}. */
export function checkSeed(): void {
  if (!isSeeded) {
    checkRandom()
    glue.drawSeed()
    isSeeded = true
  }
}
