/** The beginning of docs/performance.md: three sentences, and the comparisons of its plot. */
import { list, number, ratio } from './text.mjs'

const OURS = 'tollgate gcra'

/**
 * `gcra` over Redis against the fastest of its peers, by the number of calls in flight.
 *
 * @param {{ scenes: object[] }} part
 * @returns {{ inFlight: number, ratio: number }[]}
 */
export function comparisons({ scenes }) {
  return scenes
    .filter(({ title, inFlight }) => title === `${inFlight} in flight`)
    .flatMap(({ inFlight, results }) => {
      return results.filter(({ name }) => name === OURS).map(({ ratioToBest }) => ({ inFlight, ratio: ratioToBest }))
    })
}

/** A sentence for each of the parts that have been measured. */
export function summary({ redis, embedded, memory }) {
  return list([
    ...(redis ? overRedis(redis) : []),
    ...(embedded ? calls(embedded) : []),
    ...(memory ? bytes(memory) : []),
  ])
}

function overRedis(part) {
  const all = comparisons(part)
  const most = all.at(-1)
  if (most === undefined) return []
  const others = all
    .slice(0, -1)
    .map((each) => `${ratio(each.ratio)} with ${each.inFlight} ${each.inFlight === 1 ? 'call' : 'calls'}`)
  const rest = others.length > 0 ? `. With fewer calls in flight, this ratio is ${others.join(', ')}` : ''
  return [
    `**Over Redis**, with ${most.inFlight} calls in flight, \`gcra\` makes ${ratio(most.ratio)} times as many decisions a second as the fastest other rate limiter${rest}.`,
  ]
}

function calls({ groups }) {
  const all = Object.values(groups).flat()
  const ns = (name) => number(all.find((result) => result.name === name).nsPerCall)
  return [
    `**In the process**, \`takeSync\` takes ${ns('tollgate takeSync, gcra')} ns and \`await take\` takes ${ns('tollgate await take, gcra')} ns. A call of rate-limiter-flexible takes ${ns('rate-limiter-flexible memory')} ns, and a call of express-rate-limit's store takes ${ns('express-rate-limit MemoryStore')} ns.`,
  ]
}

function bytes({ ofMany }) {
  const of = (name) => number(ofMany.find((result) => result.name === name).bytes)
  return [
    `**With a million keys**, each key takes ${of('tollgate, gcra')} bytes of memory in tollgate, and ${of('rate-limiter-flexible memory')} bytes in rate-limiter-flexible.`,
  ]
}
