// npm run demo: ten seconds of real traffic on an Express app limited by tollgate.
//   DEMO_SECONDS=3 npm run demo    a shorter run
//   NO_COLOR=1 npm run demo        without colours
//   REDIS_URL=redis://localhost npm run demo    two server processes that share Redis
import { startProcess } from './process.mjs'
import { startScreen } from './screen.mjs'
import { startServer } from './server.mjs'
import { printRefusal, printSummary } from './summary.mjs'
import { makeClients, runTraffic } from './traffic.mjs'

const seconds = Number(process.env.DEMO_SECONDS || 10)
if (!(seconds > 0 && seconds <= 3600)) {
  throw new RangeError(`DEMO_SECONDS: must be a number of seconds up to 3600, not '${process.env.DEMO_SECONDS}'`)
}

const { REDIS_URL } = process.env
const redis = { store: REDIS_URL, prefix: `demo-${process.pid}` }
const servers = await Promise.all(REDIS_URL ? [startProcess(redis), startProcess(redis)] : [startServer()])
const clients = makeClients()
const stop = new AbortController()
const run = {
  seconds,
  urls: servers.map((server) => server.url),
  signal: stop.signal,
  startedAt: performance.now(),
  endedAt: undefined,
  /** Seconds since the start; at the end, the total. */
  elapsed: () => ((run.endedAt ?? performance.now()) - run.startedAt) / 1000,
}

// Ctrl-C ends the run early, with the summary; pressed again, it ends the process. This is not
// `once`: log-update's signal-exit, which restores the cursor, kills the process if it finds no
// other listener.
process.on('SIGINT', () => {
  if (stop.signal.aborted) process.exit(130)
  stop.abort()
})
const timer = setTimeout(() => stop.abort(), seconds * 1000)
const endScreen = startScreen(clients, run)
try {
  await runTraffic(clients, run)
} finally {
  stop.abort()
  clearTimeout(timer)
  run.endedAt = performance.now()
  endScreen()
  await Promise.all(servers.map((server) => server.close()))
}
if (servers.length > 1) {
  console.log(`\n  The requests went to ${servers.length} server processes in turn; Redis kept one count for both.`)
}
const held = printSummary(clients, run)
printRefusal(clients)
process.exitCode = held ? 0 : 1
