/** `npm run bench`: compares tollgate with its peers. See ../README.md. */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { machine, printSurroundings, versions } from './surroundings.mjs'

/**
 * The parts by name. They are loaded when they run, because each needs other peers. A part exports
 * `title`, `peers` (the compared packages), `paces` (`full` and `quick`), `run(pace)`, which
 * resolves to plain data, and `print(result)`.
 */
const PARTS = {
  embedded: () => import('./embedded.mjs'),
  workers: () => import('./workers.mjs'),
  redis: () => import('./redis.mjs'),
  away: () => import('./away.mjs'),
  refused: () => import('./refused.mjs'),
  leased: () => import('./leased.mjs'),
  permits: () => import('./permits.mjs'),
  outgoing: () => import('./outgoing.mjs'),
  bullmq: () => import('./bullmq.mjs'),
  budgets: () => import('./budgets.mjs'),
  estimates: () => import('./estimates.mjs'),
  express: () => import('./express.mjs'),
  middleware: () => import('./middleware.mjs'),
  algorithms: () => import('./algorithms.mjs'),
  metrics: () => import('./metrics.mjs'),
  wasm: () => import('./wasm.mjs'),
  startup: () => import('./startup.mjs'),
  memory: () => import('./memory.mjs'),
  ceiling: () => import('./ceiling.mjs'),
  simulate: () => import('./simulate.mjs'),
  'scale-keys': () => import('./scale-keys.mjs'),
  'scale-in-flight': () => import('./scale-in-flight.mjs'),
  'scale-policies': () => import('./scale-policies.mjs'),
  'scale-meters': () => import('./scale-meters.mjs'),
  'scale-limiters': () => import('./scale-limiters.mjs'),
  distance: () => import('./distance.mjs'),
  'scale-cluster': () => import('./scale-cluster.mjs'),
}

/** These parts run only if they are named: they take minutes, or compare nothing. */
const ASIDE = [
  'memory',
  'simulate',
  'distance',
  'outgoing',
  'bullmq',
  'budgets',
  'estimates',
  ...Object.keys(PARTS).filter((name) => name.startsWith('scale-')),
]

const PART_NAMES = Object.keys(PARTS).join(', ')

const USAGE = `Usage: npm run bench -- [part...] [options]

Parts (all but memory, simulate, distance, outgoing, bullmq, budgets, estimates and scale-…, if none is named): ${PART_NAMES}

Options:
  --rounds N    rounds in each part (default: each part's own)
  --quick       short turns: rough figures soon
  --json FILE   writes the results to a file, too
  --help        prints this`

const OPTIONS = {
  rounds: { type: 'string' },
  quick: { type: 'boolean', default: false },
  json: { type: 'string' },
  help: { type: 'boolean', default: false },
}

/** Parses the command line. Throws an error for invalid options. */
function requestOf(args) {
  const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true })
  const unknown = positionals.filter((name) => !Object.hasOwn(PARTS, name))
  if (unknown.length > 0) {
    throw new Error(`No such part: ${unknown.join(', ')}. The parts are: ${PART_NAMES}.`)
  }
  const rounds = values.rounds === undefined ? undefined : Number(values.rounds)
  if (rounds !== undefined && (!Number.isSafeInteger(rounds) || rounds < 1)) {
    throw new Error(`--rounds must be a whole number from 1, got ${JSON.stringify(values.rounds)}.`)
  }
  const names =
    positionals.length > 0 ? [...new Set(positionals)] : Object.keys(PARTS).filter((name) => !ASIDE.includes(name))
  return { names, speed: values.quick ? 'quick' : 'full', rounds, json: values.json, help: values.help }
}

async function bench({ names, speed, rounds, json }) {
  const parts = new Map()
  for (const name of names) {
    parts.set(name, await PARTS[name]())
  }
  const peers = [...parts.values()].flatMap((part) => part.peers)
  const surroundings = { machine: machine(), versions: versions(['tinybench', ...new Set(peers)]) }
  printSurroundings(surroundings)
  const results = {}
  for (const [name, part] of parts) {
    const pace = { ...part.paces[speed], ...(rounds === undefined ? {} : { rounds }) }
    console.log(`\n${part.title} (medians of ${pace.rounds} interleaved rounds)`)
    const result = await part.run(pace)
    part.print(result)
    results[name] = { pace, ...result }
  }
  if (json !== undefined) {
    const report = { measured: new Date().toISOString(), speed, ...surroundings, parts: results }
    writeFileSync(json, `${JSON.stringify(report, rounded, 2)}\n`)
  }
}

/** Rounds to three digits, the precision of the timers. */
function rounded(_name, value) {
  return typeof value === 'number' ? Math.round(value * 1_000) / 1_000 : value
}

function requested() {
  try {
    return requestOf(process.argv.slice(2))
  } catch (error) {
    console.error(`${error.message}\n\n${USAGE}`)
    process.exitCode = 1
    return undefined
  }
}

const request = requested()
if (request?.help) {
  console.log(USAGE)
} else if (request !== undefined) {
  // A slow result is no failure: people judge the figures.
  await bench(request)
}
