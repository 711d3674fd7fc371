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
  slidingLogs,
  slidingWindow,
  TollgateError,
  tokenBucket,
} from 'tollgate/wasm'
import { ALGORITHMS, type AlgorithmName } from './model/algorithms.js'
import { type FieldLeaf, optionsFrom } from './model/fields.js'
import {
  COLUMNS,
  type InputError,
  type PolicyResult,
  type TrafficSummary,
  type WorkerRequest,
  type WorkerResponse,
} from './model/messages.js'
import { run } from './model/run.js'
import type { TypedPolicy } from './model/state.js'
import { keysOf, type Traffic, TrafficError } from './model/trace.js'
import { SHAPES } from './model/traffic.js'

const MAKERS: { readonly [Name in AlgorithmName]: (options: never) => Policy } = {
  calendarWindow,
  fixedWindow,
  gcra,
  leakyBucket,
  slidingCounter,
  slidingLog,
  slidingLogs,
  slidingWindow,
  tokenBucket,
}

/** The time between checks for a newer request. */
const SLICE_MS = 20

/** The maximum number of keys in a response. */
const MAX_KEYS = 50

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
  let traffic: Traffic
  try {
    traffic = SHAPES[shape].make(values)
  } catch (error) {
    return { id, inputError: inputErrorOf(error, '', SHAPES[shape].leaves) }
  }
  const keys = keysOf(traffic)
  const watched = state.watch !== undefined && keys.includes(state.watch) ? state.watch : (keys[0] ?? 'client-1')
  const results: PolicyResult[] = []
  const pause = pauseFor(id)
  for (const policy of state.policies) {
    results.push(await runPolicy(policy, traffic, watched, pause))
  }
  const summary: TrafficSummary = {
    calls: traffic.calls.length,
    startMs: traffic.startMs,
    lengthUs: traffic.lengthUs,
    unitCosts: traffic.calls.every(({ cost }) => cost === 1),
    keys: keys.slice(0, MAX_KEYS),
    watched,
  }
  return { id, summary, results }
}

async function runPolicy(
  { algorithm, values }: TypedPolicy,
  traffic: Traffic,
  watched: string,
  pause: () => Promise<void> | undefined,
): Promise<PolicyResult> {
  const { tree, leaves } = ALGORITHMS[algorithm]
  try {
    const policy = MAKERS[algorithm](optionsFrom(tree, values) as never)
    return { outcome: await run(policy, traffic, { columns: COLUMNS, watched, pause }) }
  } catch (error) {
    return { inputError: inputErrorOf(error, `${algorithm}: `, leaves) }
  }
}

/** The message, and the field whose name it starts with. */
function inputErrorOf(error: unknown, prefix: string, leaves: readonly FieldLeaf[]): InputError {
  if (!TollgateError.is(error) && !(error instanceof TrafficError)) {
    throw error
  }
  const { message } = error
  const rest = message.startsWith(prefix) ? message.slice(prefix.length) : ''
  const path = leaves
    .map((leaf) => leaf.path)
    .find((path) => rest.startsWith(path) && !/^\w/.test(rest.slice(path.length)))
  return { message, ...(path !== undefined && { path }) }
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
