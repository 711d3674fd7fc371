/** Computes off the page's thread, with the real engine. */
// Each by its name: of the whole package the part for Redis would come along, half a megabyte.
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
import { type Leaf, optionsFrom } from './model/fields.js'
import { type Answer, COLUMNS, type Complaint, type Judged, type Request, type Sent } from './model/messages.js'
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

/** After so long a newer request is looked for. */
const SLICE_MS = 20

/** The most keys that are told. */
const MOST_KEYS = 50

/** Ends a run that nobody waits for any more. */
class Superseded extends Error {}

let latest = 0

addEventListener('message', ({ data }: MessageEvent<Request>) => {
  latest = data.id
  answer(data).then(
    (message) => postMessage(message),
    (error: unknown) => {
      if (!(error instanceof Superseded)) {
        // The page hears of it by the worker's `error` event.
        reportError(error)
      }
    },
  )
})

async function answer({ id, state }: Request): Promise<Answer> {
  const { shape, values } = state.traffic
  let traffic: Traffic
  try {
    traffic = SHAPES[shape].make(values)
  } catch (error) {
    return { id, complaint: complaintOf(error, '', SHAPES[shape].leaves) }
  }
  const keys = keysOf(traffic)
  const watched = state.watch !== undefined && keys.includes(state.watch) ? state.watch : (keys[0] ?? 'client-1')
  const judged: Judged[] = []
  const pause = pauses(id)
  for (const policy of state.policies) {
    judged.push(await judge(policy, traffic, watched, pause))
  }
  const sent: Sent = {
    calls: traffic.calls.length,
    startMs: traffic.startMs,
    lengthUs: traffic.lengthUs,
    unitCosts: traffic.calls.every(({ cost }) => cost === 1),
    keys: keys.slice(0, MOST_KEYS),
    watched,
  }
  return { id, sent, judged }
}

async function judge(
  { algorithm, values }: TypedPolicy,
  traffic: Traffic,
  watched: string,
  pause: () => Promise<void> | undefined,
): Promise<Judged> {
  const { tree, leaves } = ALGORITHMS[algorithm]
  try {
    const policy = MAKERS[algorithm](optionsFrom(tree, values) as never)
    return { outcome: await run(policy, traffic, { columns: COLUMNS, watched, pause }) }
  } catch (error) {
    return { complaint: complaintOf(error, `${algorithm}: `, leaves) }
  }
}

/** The message, and the field that it begins with. */
function complaintOf(error: unknown, prefix: string, leaves: readonly Leaf[]): Complaint {
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

/** Lets messages in from time to time, and ends the run if one of them asks for another. */
function pauses(id: number): () => Promise<void> | undefined {
  let sliceEnds = performance.now() + SLICE_MS
  return () => {
    if (performance.now() < sliceEnds) {
      return undefined
    }
    return new Promise((resolve, reject) => {
      setTimeout(() => {
        sliceEnds = performance.now() + SLICE_MS
        id === latest ? resolve() : reject(new Superseded())
      })
    })
  }
}
