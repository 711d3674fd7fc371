/** Load from autocannon, on new connections for each turn. */
import autocannon from 'autocannon'

/** The unmeasured start of a turn, which opens the connections and fills the server's caches. */
const LEAD_IN_MS = 250

/** The interval at which autocannon checks whether its time is over. */
const SAMPLE_MS = 50

/**
 * @typedef {object} Salvo The measurement of one turn.
 * @property {number} requests
 * @property {number} requestsPerSecond
 * @property {number} p50Millis The latency.
 * @property {number} p99Millis
 * @property {number} clientMicros This process's CPU per request.
 * @property {number} serverMicros The server's CPU per request.
 */

/**
 * Keeps one request in flight on each connection for a while, and checks that every status is 200.
 *
 * @param {{ name: string, port: number, cpuMicros(): Promise<number> }} server
 * @param {{ headers: readonly object[], connections: number, millis: number }} options
 *   The headers of the requests; each connection uses some of them in turn.
 * @returns {Promise<Salvo>}
 */
export async function fire({ name, port, cpuMicros }, { headers, connections, millis }) {
  let next = 0
  const share = Math.ceil(headers.length / connections)
  const salvo = autocannon({
    url: `http://127.0.0.1:${port}/`,
    connections,
    duration: (LEAD_IN_MS + millis) / 1_000,
    sampleInt: SAMPLE_MS,
    setupClient(client) {
      client.setRequests(headers.slice(next, next + share).map((own) => ({ headers: own })))
      next += share
    },
  })
  let latencies
  let start
  let cpu
  let serverCpu
  let last
  salvo.on('response', (_client, _status, _bytes, latency) => {
    if (latencies === undefined) return
    last = performance.now()
    latencies.push(latency)
  })
  const leadIn = setTimeout(async () => {
    serverCpu = await cpuMicros()
    cpu = process.cpuUsage()
    latencies = []
    start = performance.now()
  }, LEAD_IN_MS)
  const result = await salvo
  clearTimeout(leadIn)
  const { user, system } = process.cpuUsage(cpu)
  const failed = result.non2xx + result.errors + result.timeouts
  if (failed > 0) throw new Error(`${name}: ${failed} of ${result.requests.total} requests failed or were refused`)
  const requests = latencies.length
  latencies.sort((a, b) => a - b)
  return {
    requests,
    requestsPerSecond: (requests / (last - start)) * 1_000,
    p50Millis: latencies[Math.floor(requests * 0.5)],
    p99Millis: latencies[Math.floor(requests * 0.99)],
    clientMicros: (user + system) / requests,
    serverMicros: ((await cpuMicros()) - serverCpu) / requests,
  }
}
