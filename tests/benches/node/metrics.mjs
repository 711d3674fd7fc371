/** The cost of `tollgate/metrics` per call: embedded, one process, no server, allowed decisions. */

import { PrometheusExporter } from '@opentelemetry/exporter-prometheus'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { gcra, RateLimiter } from 'tollgate'
import { instrument } from 'tollgate/metrics'
import { timeLaps } from './laps.mjs'
import { printTable, summaryOf } from './report.mjs'
import { interleave } from './rounds.mjs'

export const title = 'Metrics: a limiter with and without'

export const peers = ['@opentelemetry/api', '@opentelemetry/sdk-metrics', '@opentelemetry/exporter-prometheus']

export const paces = {
  full: { rounds: 11, turnMs: 200, warmUpMs: 1_000 },
  quick: { rounds: 3, turnMs: 50, warmUpMs: 200 },
}

const KEYS = Array.from({ length: 10_000 }, (_, number) => `user:${number}`)

const CONDITIONS = [
  '10,000 keys, visited round robin, one call at a time; the benchmark checks that every decision is allowed',
  'no provider: OpenTelemetry is there, and nobody has set a MeterProvider; SDK: with the exporter for Prometheus',
]

/** @type {Record<string, (limiter: import('tollgate').EmbeddedRateLimiter) => typeof limiter>} */
const WAYS = {
  plain: (limiter) => limiter,
  'instrumented, no provider': (limiter) => instrument(limiter, { name: 'bench' }),
  'instrumented, SDK': (limiter) => {
    const provider = new MeterProvider({ readers: [new PrometheusExporter({ preventServerStart: true })] })
    return instrument(limiter, { name: 'bench', meter: provider.getMeter('bench') })
  },
}

/** Holds the last decision, so that the compiler cannot optimise it away. */
const sink = { last: undefined }

// Source text, so that each contender has its own loop: in a shared loop V8 would inline no call.
const LAPS = {
  takeSync: `return () => {
    let allowed = 0
    for (const key of KEYS) {
      sink.last = limiter.takeSync(key)
      if (sink.last.allowed) allowed++
    }
    return allowed
  }`,
  'await take': `return async () => {
    let allowed = 0
    for (const key of KEYS) {
      sink.last = await limiter.take(key)
      if (sink.last.allowed) allowed++
    }
    return allowed
  }`,
}

function contendersOf(call) {
  return Object.entries(WAYS).map(([way, made]) => {
    // A key's million units last: a unit drains in 0.6 s.
    const limiter = made(new RateLimiter(gcra({ limit: 1_000_000, period: '7d' })))
    const lap = new Function('limiter', 'KEYS', 'sink', LAPS[call])(limiter, KEYS, sink)
    const close = () => limiter.close()
    return { name: `${call}, ${way}`, awaited: call !== 'takeSync', calls: KEYS.length, lap, close }
  })
}

/** @param {import('./rounds.mjs').Pace} pace */
export async function run(pace) {
  const groups = Object.fromEntries(Object.keys(LAPS).map((call) => [call, contendersOf(call)]))
  const contenders = Object.values(groups).flat()
  try {
    const times = await interleave(contenders, pace, timeLaps)
    const summaries = Object.entries(groups).map(([call, group]) => {
      const names = group.map(({ name }) => name)
      return [call, summaryOf(names, times)]
    })
    return { conditions: CONDITIONS, groups: Object.fromEntries(summaries) }
  } finally {
    await Promise.all(contenders.map(({ close }) => close()))
  }
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ conditions, groups }) {
  for (const condition of conditions) {
    console.log(`  ${condition}`)
  }
  for (const [call, results] of Object.entries(groups)) {
    printTable(call, results)
  }
}
