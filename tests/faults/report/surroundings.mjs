/** The time, the machine and the versions of a measurement. */
import { execFileSync } from 'node:child_process'
import { machine } from '../../benches/node/surroundings.mjs'
import { REDIS_SERVER } from '../harness/servers.mjs'
import { versions } from './record.mjs'

/** @param {import('../contenders/all.mjs').Contender[]} contenders */
export function surroundings(contenders) {
  const packages = [...new Set(contenders.flatMap((contender) => contender.packages))]
  const redis = /v=(\S+)/.exec(execFileSync(REDIS_SERVER, ['--version'], { encoding: 'utf8' }))[1]
  return { measured: new Date().toISOString(), machine: machine(), versions: { Redis: redis, ...versions(packages) } }
}
