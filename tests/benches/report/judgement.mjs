/** Conclusions from the figures: missed targets, and comparisons that tollgate loses. */
import { FIGURES, table } from './text.mjs'

/** A smaller ratio is within the noise of a measurement, and is no loss. */
const NOISE = 1.03

/** All targets of a part, at any depth. */
function targetsIn(value) {
  if (value === null || typeof value !== 'object') return []
  return Object.entries(value).flatMap(([name, each]) => (name === 'targets' ? each : targetsIn(each)))
}

/** A table of all targets of the project, missed targets first. */
export function targets(parts) {
  const rows = rowsOf(parts)
  const inOrder = [...rows.filter(({ met }) => !met), ...rows.filter(({ met }) => met)]
  const count = rows.filter(({ met }) => met).length
  return `${count} of ${rows.length} targets are met. The missed targets come first.\n\n${targetTable(inOrder)}`
}

/** A table of the missed targets: for each part and bound the worst ratio, and how many miss the bound. */
export function missedTargets(parts) {
  const groups = new Map()
  for (const row of rowsOf(parts)) {
    const key = `${row.part} ${boundOf(row)}`
    groups.set(key, [...(groups.get(key) ?? []), row])
  }
  const rows = [...groups.values()].flatMap((all) => {
    const missed = all.filter(({ met }) => !met)
    if (missed.length === 0) return []
    const distance = ({ ratio, atLeast }) => (atLeast === undefined ? ratio : -ratio)
    const worst = missed.reduce((a, b) => (distance(a) >= distance(b) ? a : b))
    const [name, part, target, measured] = cellsOf(worst)
    return [[name, part, target, measured, `${missed.length} of ${all.length}`]]
  })
  return rows.length === 0 ? 'None.' : table(['the worst ratio', 'part', 'target', 'measured', 'missed'], rows)
}

function rowsOf(parts) {
  return Object.entries(parts).flatMap(([part, result]) => targetsIn(result).map((target) => ({ part, ...target })))
}

function targetTable(rows) {
  const cells = rows.map((row) => [...cellsOf(row), row.met ? 'met' : '**missed**'])
  return table(['ratio', 'part', 'target', 'measured', ''], cells)
}

function cellsOf(row) {
  const { part, of, to, figure, ratio: value } = row
  const names = [of, to].filter((name) => name !== undefined).join(' / ')
  const said = figure === undefined ? names : `${names}: ${FIGURES[figure]?.name ?? figure}`
  return [said, `\`${part}\``, boundOf(row), value >= 1_000 ? value.toFixed(0) : value.toFixed(2)]
}

function boundOf({ below, atMost, atLeast }) {
  return below !== undefined ? `below ${below}` : atMost !== undefined ? `at most ${atMost}` : `at least ${atLeast}`
}

/**
 * All comparisons of all parts in which another contender is better, with the best of the others.
 *
 * @typedef {object} Loss
 * @property {string} where
 * @property {string} own
 * @property {string} figure
 * @property {string} other
 * @property {number} times The ratio by which the other is better.
 */
export function losses(parts) {
  const rows = Object.entries(parts).flatMap(([part, result]) => {
    const found = [lostScenes, lostGroups, lostSweeps, lostCluster, lostStartup].flatMap((lostIn) => lostIn(result))
    return found.map(({ where, own, figure, other, times }) => {
      return [where, own, FIGURES[figure].name, other, times.toFixed(2), `\`${part}\``]
    })
  })
  if (rows.length === 0) return 'No peer is better in these figures.'
  return table(['where', 'tollgate', 'figure', 'the best other', 'by a factor of', 'part'], rows)
}

/** The compared figures of a scene over Redis, and of a cluster. */
const COMPARED = ['callsPerSecond', 'loadMs', 'cpuMicros', 'redisMicros', 'p50Micros', 'p99Micros', 'timerP99Ms']

const isOurs = ({ name }) => name.startsWith('tollgate')

/** Losses in scenes over Redis: others make more calls a second, or use less CPU. */
function lostScenes({ scenes = [] }) {
  // Other scenes have no peer: redis-benchmark is not one, and algorithms have targets.
  return scenes.filter(({ peer }) => peer !== undefined).flatMap(({ title, results }) => lostAmong(title, results))
}

function lostCluster({ results = [] }) {
  const isComparable = results.some(({ redisToSingle }) => redisToSingle !== undefined)
  return isComparable
    ? lostAmong(
        '512 in flight',
        results.filter(({ name }) => name.includes('cluster')),
      )
    : []
}

/** Losses at start-up: others load faster in the same way. A program that loads nothing is no contender. */
function lostStartup({ results = [] }) {
  const loading = results.filter(({ loadMs, files }) => loadMs !== undefined && files > 0)
  return [true, false].flatMap((byImport) => {
    return lostAmong(
      'start-up',
      loading.filter(({ name }) => name.endsWith('by import') === byImport),
    )
  })
}

function lostAmong(where, results) {
  const others = results.filter((result) => !isOurs(result))
  return results.filter(isOurs).flatMap((own) => {
    return COMPARED.flatMap((figure) => best(own, others, figure).map((loss) => ({ where, own: own.name, ...loss })))
  })
}

/** Embedded losses: others take less time than the first of the group, which is tollgate. */
function lostGroups({ groups = {} }) {
  return Object.entries(groups).flatMap(([where, [first, ...others]]) => {
    return others
      .filter((other) => !isOurs(other) && other.ratio * NOISE < 1)
      .map(({ name, ratio }) => ({ where, own: first.name, figure: 'nsPerCall', other: name, times: 1 / ratio }))
  })
}

/**
 * Losses in sweeps, by series and figure: the points at which others are better, and the largest
 * ratio.
 */
function lostSweeps({ sweeps = [] }) {
  return sweeps.flatMap(({ axis, series }) => {
    return series.filter(isOurs).flatMap(({ name, points }) => {
      // Series with random keys are compared only with each other.
      const others = series.filter((one) => !isOurs(one) && isAtRandom(one.name) === isAtRandom(name))
      const figures = Object.keys(points[0]).filter((figure) => figure in FIGURES && !FIGURES[figure].isNeutral)
      return figures.flatMap((figure) => lostAt({ name, points }, others, figure, axis))
    })
  })
}

const isAtRandom = (name) => name.endsWith('at random')

function lostAt({ name, points }, others, figure, axis) {
  const lost = points.flatMap((point) => {
    const theirs = others.flatMap((other) =>
      other.points.filter(({ x }) => x === point.x).map((at) => ({ ...at, name: other.name })),
    )
    return best(point, theirs, figure).map((loss) => ({ x: point.x, ...loss }))
  })
  if (lost.length === 0) return []
  const worst = lost.reduce((a, b) => (a.times >= b.times ? a : b))
  const xs = lost.map(({ x }) => x.toLocaleString('en'))
  const at = xs.length === points.length ? 'all' : xs.join(', ')
  return [{ where: `${axis}: ${at}`, own: name, ...worst }]
}

/** The best of the better contenders, if any. */
function best(own, others, figure) {
  const better = others
    .filter((other) => own[figure] !== undefined && other[figure] !== undefined)
    .map((other) => ({ figure, other: other.name, times: advantage(own[figure], other[figure], figure) }))
    .filter(({ times }) => times > NOISE)
  return better.length === 0 ? [] : [better.reduce((a, b) => (a.times >= b.times ? a : b))]
}

/** The ratio by which their figure is better. */
function advantage(own, theirs, figure) {
  return FIGURES[figure]?.isMoreBetter ? theirs / own : own / theirs
}
