/** What the figures say: targets, and where tollgate loses. */
import { FIGURES, list, ratio, table } from './text.mjs'

/** A difference that a measurement cannot tell is no loss. */
const NOISE = 1.03

/** Every target of a part, wherever it stands. */
function targetsIn(value) {
  if (value === null || typeof value !== 'object') return []
  return Object.entries(value).flatMap(([name, each]) => (name === 'targets' ? each : targetsIn(each)))
}

/** All targets that the project has set itself, those that are missed first. */
export function missed(parts) {
  const rows = Object.entries(parts).flatMap(([part, result]) => {
    return targetsIn(result).map((target) => ({ part, ...target }))
  })
  const inOrder = [...rows.filter(({ met }) => !met), ...rows.filter(({ met }) => met)]
  const cells = inOrder.map(({ part, of, to, figure, below, atMost, atLeast, ratio: value, met }) => [
    [of, to].filter((name) => name !== undefined).join(' / ') + (figure === undefined ? '' : `: ${figure}`),
    `\`${part}\``,
    below !== undefined ? `below ${below}` : atMost !== undefined ? `at most ${atMost}` : `at least ${atLeast}`,
    value.toFixed(2),
    met ? 'met' : '**missed**',
  ])
  const count = rows.filter(({ met }) => met).length
  return `${count} of ${rows.length} are met.\n\n${table(['what', 'part', 'target', 'measured', ''], cells)}`
}

/** Each comparison in which another is better, of whatever part. */
export function losses(parts) {
  const items = Object.entries(parts).flatMap(([part, result]) => {
    const found = [...lostScenes(result), ...lostGroups(result), ...lostSweeps(result), ...lostCluster(result)]
    return found.map((text) => `${text} (\`${part}\`)`)
  })
  return items.length === 0 ? 'Nowhere in these figures.' : list(items)
}

/** What is compared in a scene over Redis. */
const COMPARED = ['callsPerSecond', 'cpuMicros', 'redisMicros', 'p50Micros', 'p99Micros', 'timerP99Ms']

const isOurs = ({ name }) => name.startsWith('tollgate')

/** Scenes over Redis: others that make more calls a second, or take less of CPU. */
function lostScenes({ scenes = [] }) {
  return scenes.flatMap(({ title, results, peer }) => {
    if (peer === undefined) return []
    const others = results.filter((result) => !isOurs(result))
    return results.filter(isOurs).flatMap((own) => {
      return COMPARED.flatMap((figure) => worse(own, others, figure, title))
    })
  })
}

/** Embedded: those who take less time than the group's first, which is tollgate. */
function lostGroups({ groups = {} }) {
  return Object.values(groups).flatMap(([first, ...others]) => {
    return others
      .filter((other) => !isOurs(other) && other.ratio * NOISE < 1)
      .map((other) => `${first.name}: ${other.name} takes ${ratio(other.ratio)} of its time`)
  })
}

function lostCluster({ results = [] }) {
  if (!results.some(({ redisToSingle }) => redisToSingle !== undefined)) return []
  const inCluster = results.filter(({ name }) => name.includes('cluster'))
  const others = inCluster.filter((result) => !isOurs(result))
  return inCluster.filter(isOurs).flatMap((own) => {
    return ['callsPerSecond', 'cpuMicros', 'redisMicros'].flatMap((figure) => worse(own, others, figure, 'cluster'))
  })
}

/** Sweeps: by series and figure, the points at which a peer is better. */
function lostSweeps({ sweeps = [] }) {
  return sweeps.flatMap(({ axis, series }) => {
    const ours = series.filter(isOurs)
    const others = series.filter((one) => !ours.includes(one))
    return ours.flatMap(({ name, points }) => {
      const figures = Object.keys(points[0]).filter((figure) => figure in FIGURES && !FIGURES[figure].isNeutral)
      return figures.flatMap((figure) => others.flatMap((other) => lostAt(name, points, other, figure, axis)))
    })
  })
}

function lostAt(name, points, other, figure, axis) {
  // Those who draw keys at random are compared with each other.
  if (name.endsWith('at random') !== other.name.endsWith('at random')) return []
  const lost = points.flatMap((point) => {
    const theirs = other.points.find(({ x }) => x === point.x)
    const part = theirs === undefined ? 1 : advantage(point[figure], theirs[figure], figure)
    return part > NOISE ? [{ x: point.x, part }] : []
  })
  if (lost.length === 0) return []
  const at = lost.map(({ x, part }) => `${x.toLocaleString('en')} (${part.toFixed(2)})`).join(', ')
  return [`${name}, ${FIGURES[figure].name}: ${other.name} is better by so many times at ${axis}: ${at}`]
}

function worse(own, others, figure, where) {
  return others
    .filter((other) => own[figure] !== undefined && other[figure] !== undefined)
    .map((other) => ({ other, part: advantage(own[figure], other[figure], figure) }))
    .filter(({ part }) => part > NOISE)
    .map(({ other, part }) => {
      return `${where}, ${own.name}, ${FIGURES[figure].name}: ${other.name} is ${part.toFixed(2)} times better`
    })
}

/** How many times better theirs is. */
function advantage(own, theirs, figure) {
  return FIGURES[figure]?.isMoreBetter ? theirs / own : own / theirs
}
