/** Computes the results in a worker, with the real engine. */
// Named imports, because an import of the whole package would include the part for Redis, half a
// megabyte.
import {
  calendarWindow,
  fixedWindow,
  gcra,
  leakyBucket,
  type Policy,
  slidingCounter,
  slidingLog,
  slidingWindow,
  TollgateError,
  tokenBucket,
} from 'tollgate/wasm'
import { ALGORITHMS, type AlgorithmName } from './model/algorithms.js'
import { binsOf } from './model/bins.js'
import { type FieldLeaf, optionsFrom } from './model/fields.js'
import { type InputError, inputErrorOf } from './model/input-error.js'
import { type Law, lawsOf } from './model/laws.js'
import type { PolicyResult, TrafficSummary, WorkerRequest, WorkerResponse } from './model/messages.js'
import { run } from './model/run.js'
import type { TypedPolicy } from './model/state.js'
import { checkMeter, keysOf, type Traffic, TrafficError } from './model/trace.js'
import { SHAPES } from './model/traffic.js'

const MAKERS: { readonly [Name in AlgorithmName]: (options: never) => Policy } = {
  calendarWindow,
  fixedWindow,
  gcra,
  leakyBucket,
  slidingCounter,
  slidingLog,
  'slidingLog-limits': slidingLog,
  slidingWindow,
  tokenBucket,
}

/** The time between checks for a newer request. */
const SLICE_MS = 20

/** The maximum number of keys in a response. */
const MAX_KEYS = 50

/** The bound of a comparison without a valid policy. */
const NO_LAW: Law = { spanUs: 1, most: 1, asked: 1, closed: false }

/** Cancels a run that a newer request has replaced. */
class SupersededError extends Error {}

let latest = 0

addEventListener('message', ({ data }: MessageEvent<WorkerRequest>) => {
  latest = data.id
  respond(data).then(
    (message) => postMessage(message),
    (error: unknown) => {
      if (!(error instanceof SupersededError)) {
        // The page receives it as the worker's `error` event.
        reportError(error)
      }
    },
  )
})

async function respond({ id, state }: WorkerRequest): Promise<WorkerResponse> {
  const { shape, values } = state.traffic
  let sent: Traffic
  try {
    sent = SHAPES[shape].make(values)
  } catch (error) {
    return { id, inputError: errorOf(error, '', SHAPES[shape].leaves) }
  }
  const bins = binsOf(sent.lengthUs)
  const traffic = { ...sent, lengthUs: bins.columns * bins.widthUs }
  const keys = keysOf(traffic)
  const watched = keys.find(({ key }) => key === state.watch)?.key ?? keys[0]?.key ?? 'client-1'
  const policies = state.policies.map((policy) => policyFrom(policy, traffic))
  const compared = comparedLaw(policies)
  const options = { columns: bins.columns, watched, compared, pause: pauseFor(id) }
  const results: PolicyResult[] = []
  for (const policy of policies) {
    results.push('inputError' in policy ? policy : { outcome: await run(policy, traffic, options) })
  }
  const summary: TrafficSummary = {
    calls: traffic.calls.length,
    startMs: traffic.startMs,
    lengthUs: traffic.lengthUs,
    unitCosts: traffic.calls.every(({ cost }) => cost === 1),
    first: traffic.calls[0],
    keys: keys.slice(0, MAX_KEYS),
    keyCount: keys.length,
    watched,
    comparedUs: compared.spanUs,
  }
  return { id, summary, results }
}

function policyFrom(
  { algorithm, values }: TypedPolicy,
  traffic: Traffic,
): Policy | { readonly inputError: InputError } {
  const { tree, leaves } = ALGORITHMS[algorithm]
  try {
    const policy = MAKERS[algorithm](optionsFrom(tree, values) as never)
    checkMeter(policy, traffic)
    return policy
  } catch (error) {
    return { inputError: errorOf(error, `${algorithm}: `, leaves) }
  }
}

/** The longest span of the first valid policy: all policies are compared over it. */
function comparedLaw(policies: readonly ReturnType<typeof policyFrom>[]): Law {
  const first = policies.find((policy) => !('inputError' in policy)) as Policy | undefined
  const laws = first === undefined ? [] : lawsOf(first)
  return laws.toSorted((one, other) => other.spanUs - one.spanUs)[0] ?? NO_LAW
}

function errorOf(error: unknown, prefix: string, leaves: readonly FieldLeaf[]): InputError {
  if (!TollgateError.is(error) && !(error instanceof TrafficError)) {
    throw error
  }
  return inputErrorOf(error.message, prefix, leaves)
}

/** Handles pending messages at intervals, and cancels the run if one of them is a newer request. */
function pauseFor(id: number): () => Promise<void> | undefined {
  let sliceEnds = performance.now() + SLICE_MS
  return () => {
    if (performance.now() < sliceEnds) {
      return undefined
    }
    return new Promise((resolve, reject) => {
      setTimeout(() => {
        sliceEnds = performance.now() + SLICE_MS
        id === latest ? resolve() : reject(new SupersededError())
      })
    })
  }
}
