/** Draws the record of a soak as SVG: resources, latencies and faults over time. */
import { LINES, render } from '../../../docs/plots/charts.mjs'

const TEXT = { fontSize: 13 }

const SIZE = { width: 760, height: 900 }

/** Points that a line has at most: each is the median of a group of samples. */
const POINTS = 120

const [ORANGE, BLUE] = LINES
const GREY = '#444444'

/** Panels from top to bottom; the last one has the faults. */
const [TOP, HEIGHT, GAP] = [70, 105, 62]

/**
 * @param {import('./record.js').SoakRecord} record
 * @param {Record<string, [number, number][]>} points The values of each resource.
 */
export function plot({ seconds, faults, samples, calls, violations }, points) {
  const latency = (index) =>
    samples.flatMap(({ at, durations }) => {
      const take = durations['take (rate)']
      return take === undefined ? [] : [[at, take[index]]]
    })
  const panels = [
    panel('memory of the process, MiB', {
      resident: points.rss,
      'heap, in use': points.heap,
      external: points.external,
    }),
    panel('handles of the process', {
      handles: points.handles,
      descriptors: points.descriptors,
      threads: points.threads,
    }),
    panel('servers', { 'memory, MiB': points.redisMemory, clients: points.redisClients }),
    panel(
      'a call over Redis, ms (logarithmic)',
      { median: latency(1), '99th percentile': latency(2), longest: latency(3) },
      'log',
    ),
  ]
  const targets = [...new Set(faults.map(({ target }) => target))].sort()
  const title = `Soak of ${duration(seconds)}: ${calls.toLocaleString('en')} calls, ${faults.length} faults, ${violations.length} violations`
  const grids = [...panels, undefined].map((_, index) => ({
    left: 70,
    right: 24,
    top: TOP + index * (HEIGHT + GAP),
    height: HEIGHT,
  }))
  const xAxis = grids.map((_, gridIndex) => ({
    type: 'value',
    gridIndex,
    min: 0,
    max: Math.ceil(seconds / 60),
    axisLabel: TEXT,
    ...(gridIndex === panels.length && { name: 'minutes', nameLocation: 'middle', nameGap: 26, nameTextStyle: TEXT }),
  }))
  return render(
    {
      textStyle: TEXT,
      title: { text: title, left: 'center', top: 6, textStyle: { fontSize: 15 } },
      grid: grids,
      xAxis,
      yAxis: [
        ...panels.map(({ name, type }, gridIndex) => ({
          type,
          gridIndex,
          min: type === 'log' ? 0.1 : 0,
          splitNumber: 3,
          axisLabel: TEXT,
          name,
          nameTextStyle: { ...TEXT, align: 'left', padding: [0, 0, 0, -60] },
        })),
        {
          type: 'category',
          gridIndex: panels.length,
          data: targets,
          axisLabel: TEXT,
          name: 'faults',
          nameTextStyle: { ...TEXT, align: 'left', padding: [0, 0, 0, -60] },
        },
      ],
      legend: panels.map(({ lines }, index) => ({
        data: Object.keys(lines),
        right: 24,
        top: TOP + index * (HEIGHT + GAP) - 28,
        itemGap: 20,
        icon: 'rect',
        itemHeight: 3,
        textStyle: TEXT,
      })),
      series: [
        ...panels.flatMap(({ lines }, index) => seriesOf(lines, index)),
        ...faultSeries(faults, panels.length, seconds),
      ],
    },
    { ...SIZE, height: TOP + grids.length * (HEIGHT + GAP) },
  )
}

function panel(name, lines, type = 'value') {
  return { name, lines, type }
}

function seriesOf(lines, index) {
  return Object.entries(lines).map(([name, points], number) => ({
    type: 'line',
    name,
    xAxisIndex: index,
    yAxisIndex: index,
    data: grouped(points),
    showSymbol: false,
    lineStyle: { color: [BLUE, ORANGE, GREY][number], width: 1.5 },
    itemStyle: { color: [BLUE, ORANGE, GREY][number] },
  }))
}

/** A bar for each fault. Echarts does not draw lines of less than a pixel. */
function faultSeries(faults, index, seconds) {
  const shortest = seconds / 400
  return [...new Set(faults.map(({ target }) => target))].map((target) => ({
    type: 'line',
    xAxisIndex: index,
    yAxisIndex: index,
    showSymbol: false,
    silent: true,
    lineStyle: { color: ORANGE, width: 12, cap: 'butt' },
    data: faults
      .filter((fault) => fault.target === target)
      .flatMap(({ from, to }) => [
        [round(from / 60), target],
        [round(Math.max(to, from + shortest) / 60), target],
        ['-', '-'],
      ]),
  }))
}

/** Medians of groups of points, in minutes. */
function grouped(points) {
  const size = Math.ceil(points.length / POINTS)
  return Array.from({ length: Math.ceil(points.length / size) }, (_, index) => {
    const group = points.slice(index * size, (index + 1) * size)
    const middle = (of) => group.map(of).sort((a, b) => a - b)[group.length >> 1]
    return [round(middle(([at]) => at) / 60), round(middle(([, value]) => value))]
  })
}

function round(value) {
  return Math.round(value * 100) / 100
}

function duration(seconds) {
  return seconds < 3_600 ? `${round(seconds / 60)} min` : `${round(seconds / 3_600)} h`
}
