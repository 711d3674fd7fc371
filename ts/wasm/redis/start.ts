import * as glue from '../../../wasm/redis-engine.js'
import * as host from '../engine/host.js'
import { checkRandom } from '../engine/random.js'
import { Desk } from '../engine/scratch.js'
import { moduleOf } from './module.js'

/** What is for Redis, once it has been started. */
export interface Started {
  readonly desk: Desk
  /** The script, and its digest. */
  readonly script: { readonly source: string; readonly digest: string }
}

let started: Started | undefined

/**
 * Starts what is for Redis, when it is first needed: many who have the embedded store alone never do.
 *
 * @throws {TollgateError} `STORE_ERROR` where the platform gives no random numbers now.
 */
export function start(): Started {
  if (started === undefined) {
    glue.setHost(host)
    const { memory } = glue.initSync({ module: moduleOf() })
    const script = { source: glue.scriptSource(), digest: glue.scriptDigest() }
    started = { desk: new Desk(glue, memory), script }
  }
  return started
}

let isSeeded = false

/** Draws the secret of hash functions, before the first call is noted. (Not at the start: see {@link checkRandom}.) */
export function checkSeed(): void {
  if (!isSeeded) {
    checkRandom()
    glue.drawSeed()
    isSeeded = true
  }
}
