/** A network between this machine's processes: a proxy that adds a delay (`../network_delay.rs`). */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import { end, failureOf, minded } from './children.mjs'
import { median } from './report.mjs'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const RUN = ['run', '--quiet', '--release', '--package', 'tollgate-benches', '--bin', 'network-delay', '--']

/**
 * Starts a network in front of a server of this machine.
 *
 * @param {number} port
 */
export async function startNetwork(port) {
  const child = minded(spawn('cargo', [...RUN, `${port}`], { cwd: ROOT, stdio: ['pipe', 'pipe', 'inherit'] }))
  const failure = failureOf(child, 'the network')
  failure.catch(() => {})
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const nextLine = async () => (await Promise.race([lines.next(), failure])).value
  const ownPort = Number(await nextLine())
  const client = new Redis(ownPort, '127.0.0.1')
  return {
    url: `redis://127.0.0.1:${ownPort}`,

    /** Sets the round trip that the network adds, in milliseconds. */
    async set(roundTripMs) {
      const micros = roundTripMs * 1_000
      child.stdin.write(`${Math.ceil(micros / 2)} ${Math.floor(micros / 2)}\n`)
      await nextLine()
    },

    /** The round trip of a lone PING, in milliseconds. */
    async roundTripMs() {
      const times = []
      for (let turn = 0; turn < 11; turn++) {
        const start = performance.now()
        await client.ping()
        times.push(performance.now() - start)
      }
      return median(times)
    },

    async stop() {
      client.disconnect()
      // The proxy ends with its input. cargo does not pass signals on.
      child.stdin.end()
      await failure.catch(() => {})
      await end(child)
    },
  }
}
