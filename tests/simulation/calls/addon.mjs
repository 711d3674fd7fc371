/** The keys of simulated servers, and Lua: `tests/simulation/addon/`. */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import process from 'node:process'

const addon = { exports: {} }
process.dlopen(
  addon,
  join(import.meta.dirname, '..', '..', '..', 'target', 'simulation', 'release', 'libtollgate_simulation_addon.so'),
)

export const { ServerKeys } = addon.exports

/** The digests of the scripts that have been compiled, by their sources. */
const digests = new Map()

/** Compiles a script, and returns its digest. */
export function digestOf(source) {
  let digest = digests.get(source)
  if (digest === undefined) {
    digest = createHash('sha1').update(source).digest('hex')
    digests.set(source, digest)
    addon.exports.loadScript(digest, source)
  }
  return digest
}
