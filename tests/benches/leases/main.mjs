/**
 * `npm run simulate:leases`: simulates leases of 1 to 1,000 processes over one store, in virtual
 * time.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { printColumns } from '../node/report.mjs'
import { demandOf } from './demand.mjs'
import { simulate } from './simulation.mjs'

const PROCESSES = [1, 3, 10, 30, 100, 300, 1_000]

/** The mean demand on the hottest key, as a multiple of its limit. */
const LOADS = [0.5, 1, 2]

const LEASE_MS = 100
const ROUND_TRIP_MS = 1
const WARM_UP_SECONDS = 2
const KEYS = 100

/** The exponents of Zipf distributions. */
const KEY_SKEW = 1
const PROCESS_SKEW = 0.5

const USAGE = `Usage: npm run simulate:leases -- [options]

Simulates processes with leases over one store, and the same calls without leases. Fails if more
units are used than the law of the policy admits.

Options:
  --calls N     calls per second of all processes together (default: 20000)
  --seconds N   virtual seconds after the warm-up (default: 3)
  --seed N      changes the random demand (default: 1)
  --plot FILE   draws the plot; that of the docs is docs/plots/leases.svg
  --json        prints the results as JSON
  --help        prints this`

const OPTIONS = {
  calls: { type: 'string', default: '20000' },
  seconds: { type: 'string', default: '3' },
  seed: { type: 'string', default: '1' },
  plot: { type: 'string' },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
}

/** The results of all numbers of processes under one load. */
async function simulateLoad(load, demand, { seconds, seed }) {
  const shared = {
    limit: Math.round(demand.hottest / load),
    processSkew: PROCESS_SKEW,
    roundTripMs: ROUND_TRIP_MS,
    warmUpMicros: WARM_UP_SECONDS * 1e6,
    seed,
  }
  // All calls reach the store after the same delay, so the number of processes makes no difference.
  const without = await simulate(demand, { ...shared, processes: 1 })
  const results = []
  for (const processes of PROCESSES) {
    const result = await simulate(demand, { ...shared, processes, leaseMs: LEASE_MS })
    results.push({ ...figuresOf(result, without, seconds), processes })
  }
  return { load, limit: shared.limit, without: figuresOf(without, without, seconds), results }
}

/** @param {Awaited<ReturnType<typeof simulate>>} result */
function figuresOf({ all, hottest, law }, without, seconds) {
  const figures = (those, base) => ({
    leasedPercent: (100 * those.leased) / those.calls,
    operationsPer100Calls: (100 * those.operations) / those.calls,
    /** Of the same calls without leases. */
    admittedPercent: (100 * those.admitted) / base.admitted,
    admittedPerSecond: those.admitted / seconds,
    unusedPerSecond: those.unused / seconds,
    returnedPerSecond: those.returned / seconds,
  })
  return { all: figures(all, without.all), hottest: figures(hottest, without.hottest), ...law }
}

function print(all, { calls, seconds }) {
  const demand = `${calls} calls per second on ${KEYS} keys for ${seconds} s`
  console.log(`\n${demand}, lease: '${LEASE_MS}ms', round trip of ${ROUND_TRIP_MS} ms`)
  const columns = ['leased', 'ops/100', 'admitted', 'unused/s', 'returned/s']
  const head = ['processes', ...columns, 'hottest:', ...columns, 'excess', 'margin']
  const cells = (figures) => [
    `${figures.leasedPercent.toFixed(1)} %`,
    figures.operationsPer100Calls.toFixed(1),
    `${figures.admittedPercent.toFixed(1)} %`,
    figures.unusedPerSecond.toFixed(0),
    figures.returnedPerSecond.toFixed(0),
  ]
  for (const { load, limit, without, results } of all) {
    console.log(
      `\n${load} x the limit of the hottest key, which is ${limit} per second. Without leases ` +
        `${without.hottest.admittedPerSecond.toFixed(0)} of its calls per second are admitted.`,
    )
    const rows = results.map(({ processes, all, hottest, excess, margin }) => {
      return [`${processes}`, ...cells(all), '', ...cells(hottest), `${excess}`, `${margin}`]
    })
    printColumns(head, rows)
  }
  console.log(`
leased       calls that a lease decided
ops/100      operations of the store for 100 calls; 100 without leases
admitted     admitted calls, compared with the same calls without leases
unused/s     units that leases offered to give back; others had drained
returned/s   units that came back
hottest:     the same figures for the hottest key alone
excess       the most units of a key above the law; must be 0
margin       the fewest units between the hottest key and the law`)
}

async function main(values) {
  const [calls, seconds, seed] = [values.calls, values.seconds, values.seed].map(Number)
  const demand = demandOf({
    callsPerSecond: calls,
    seconds: WARM_UP_SECONDS + seconds,
    keys: KEYS,
    keySkew: KEY_SKEW,
    seed,
  })
  const all = []
  for (const load of LOADS) {
    all.push(await simulateLoad(load, demand, { seconds, seed }))
  }
  if (values.json) {
    console.log(JSON.stringify(all, undefined, 2))
  } else {
    print(all, { calls, seconds })
  }
  if (values.plot !== undefined) {
    // Loaded here, because the table needs no packages of docs/.
    const { plotOf } = await import('./plot.mjs')
    writeFileSync(values.plot, plotOf(all, demand.hottest))
  }
  if (all.some(({ without, results }) => [without, ...results].some(({ excess }) => excess > 0))) {
    console.error('More units were used than the law admits.')
    process.exitCode = 1
  }
}

function requested() {
  try {
    const { values } = parseArgs({ options: OPTIONS })
    const invalid = ['calls', 'seconds', 'seed'].find((name) => !/^[1-9]\d*$/.test(values[name]))
    if (invalid !== undefined) {
      throw new Error(`--${invalid} takes a whole number from 1`)
    }
    return values
  } catch (error) {
    console.error(`${error.message}\n\n${USAGE}`)
    process.exitCode = 1
    return undefined
  }
}

const values = requested()
if (values?.help) {
  console.log(USAGE)
} else if (values !== undefined) {
  await main(values)
}
