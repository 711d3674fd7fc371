/** The plots of docs/performance.md, by file name. Each shows one part. */
import { bars, panels } from './charts.mjs'
import { comparisons } from './summary.mjs'
import { number, speed } from './text.mjs'

/** Indexes into the list of colours: for tollgate, its peers and the bare server. */
const [OURS, THEIRS, BARE] = [1, 4, 3]

/** @type {Record<string, [part: string, draw: (part: any) => string | undefined]>} */
const PLOTS = {
  summary: ['redis', summary],
  embedded: ['embedded', embedded],
  ratios: ['redis', ratios],
  ceiling: ['ceiling', ceiling],
  algorithms: ['algorithms', algorithms],
  'in-flight': ['scale-in-flight', inFlight],
  keys: ['scale-keys', keysOverRedis],
  'keys-embedded': ['scale-keys', keysEmbedded],
  policies: ['scale-policies', policies],
  limiters: ['scale-limiters', limiters],
  distance: ['distance', distance],
  cluster: ['scale-cluster', cluster],
}

/**
 * The plots of all measured parts.
 *
 * @param {import('./record.mjs').Record_} record
 * @returns {[name: string, svg: string][]}
 */
export function plots({ parts }) {
  return Object.entries(PLOTS)
    .filter(([, [part]]) => part in parts)
    .map(([name, [part, draw]]) => [name, draw(parts[part])])
}

const isOurs = (name) => name.startsWith('tollgate')

const colourOf = ({ name }) => (isOurs(name) ? OURS : THEIRS)

function summary(part) {
  return bars({
    title: 'Over Redis: gcra against the fastest peer',
    x: 'calls a second, as a multiple (log), more is better',
    bars: comparisons(part).map(({ inFlight, ratio }) => ({
      name: inFlight === 1 ? '1 call in flight' : `${inFlight} calls in flight`,
      value: ratio,
      colour: OURS,
    })),
    text: (value) => value.toFixed(2),
    isRatio: true,
    width: 400,
  })
}

function embedded({ groups }) {
  const shown = Object.values(groups).flat()
  return bars({
    title: 'Embedded: the time of a call',
    x: 'ns per call, less is better',
    bars: shown.map((result) => ({ name: result.name, value: result.nsPerCall, colour: colourOf(result) })),
    text: number,
  })
}

function ratios({ scenes }) {
  const usual = scenes.filter(({ peer, limiters }) => limiters === 1 && peer === scenes[0].peer)
  const shown = usual.flatMap(({ inFlight, results }) => {
    return results
      .filter(({ name }) => name !== scenes[0].peer)
      .map((result) => ({
        name: `${inFlight} in flight: ${result.name}`,
        value: result.ratioToPeer,
        colour: colourOf(result),
      }))
  })
  return bars({
    title: `Over Redis: calls a second, as a multiple of those of ${scenes[0].peer}`,
    x: `× ${scenes[0].peer} (log), more is better`,
    bars: shown,
    text: (value) => value.toFixed(2),
    isRatio: true,
  })
}

function ceiling({ scenes }) {
  return bars({
    title: 'The same scripts, sent by redis-benchmark and by tollgate',
    x: 'decisions a second, more is better',
    bars: scenes.flatMap(({ title, results }) => {
      const [what] = title.split(', scripts')
      return results.map(({ name, callsPerSecond }) => {
        const short = name.replace(/, \d+ connections.*/, '')
        return { name: `${what}: ${short}`, value: callsPerSecond, colour: isOurs(name) ? OURS : BARE }
      })
    }),
    text: speed,
  })
}

function algorithms({ scenes: [{ results }] }) {
  const peer = results.find(({ name }) => name.startsWith('rate-limiter-flexible'))
  return bars({
    title: "Redis's CPU per decision, by algorithm",
    x: 'µs of CPU per decision, 512 calls in flight, less is better',
    bars: results.map(({ name, redisMicros }) => {
      return { name, value: redisMicros, colour: name === peer?.name ? THEIRS : name.startsWith('INCR') ? BARE : OURS }
    }),
    text: number,
    mark: peer?.redisMicros,
  })
}

function cluster({ results }) {
  return bars({
    title: 'Redis Cluster of three masters, and one server',
    x: "µs of all servers' CPU per decision, 512 calls in flight, less is better",
    bars: results.map((result) => ({
      name: result.name,
      value: result.redisMicros,
      colour: isOurs(result.name) ? OURS : result.name.startsWith('one') ? BARE : THEIRS,
    })),
    text: number,
  })
}

/** The lines of one figure of a sweep. */
function linesOf({ series }, figure) {
  return series.map(({ name, points }) => ({
    name,
    points: points.map((point) => [point.x, point[figure]]),
  }))
}

/** Calls a second, and the CPU cost of a call in the process and in Redis. */
function costs(title, x, sweep, { logX = true, logCost = false } = {}) {
  return panels({
    title,
    x: logX ? `${x} (log)` : x,
    logX,
    panels: [
      { y: 'calls a second', log: logCost, lines: linesOf(sweep, 'callsPerSecond') },
      { y: "the process's CPU µs per call", log: true, lines: linesOf(sweep, 'cpuMicros') },
      { y: "Redis's CPU µs per call", log: logCost, lines: linesOf(sweep, 'redisMicros') },
    ],
  })
}

function inFlight({ sweeps: [sweep] }) {
  return costs('Over Redis: calls in flight', 'calls in flight', sweep, { logCost: true })
}

function keysOverRedis({ sweeps: [sweep] }) {
  return costs('Over Redis: keys, with 512 calls in flight', 'keys', sweep)
}

function limiters({ sweeps: [sweep] }) {
  return costs('Over Redis: limiters on one store, with 512 calls in flight', 'limiters', sweep)
}

function keysEmbedded({ sweeps: [, sweep] }) {
  const panel = { y: 'ns per call', lines: linesOf(sweep, 'nsPerCall') }
  return panels({ title: 'Embedded: keys', x: 'keys (log)', logX: true, panels: [panel] })
}

function policies({ sweeps: [overRedis, embeddedOnes] }) {
  return panels({
    title: 'Policies of a limiter',
    x: 'policies',
    panels: [
      { y: 'over Redis: calls a second', lines: linesOf(overRedis, 'callsPerSecond') },
      { y: "Redis's CPU µs per call", lines: linesOf(overRedis, 'redisMicros') },
      { y: 'embedded: ns per call', lines: linesOf(embeddedOnes, 'nsPerCall') },
    ],
  })
}

function distance({ sweeps: [ping, ...loads] }) {
  const bound = { name: 'a lone PING', isBound: true, points: ping.series[0].points.map(({ x, rttMs }) => [x, rttMs]) }
  const at = (axis) => loads.find((load) => load.axis === `ms, ${axis}`)
  const steady = at('2000 calls a second')
  return panels({
    title: 'Distance to Redis',
    x: 'ms added to a round trip',
    panels: [
      { y: '2,000 calls a second: p50 ms', lines: [...linesOf(steady, 'p50Ms'), bound] },
      { y: '2,000 calls a second: p99 ms', lines: [...linesOf(steady, 'p99Ms'), bound] },
      { y: '64 in flight: calls a second', lines: linesOf(at('64 in flight'), 'callsPerSecond') },
    ],
  })
}
