/** Plots as SVG: how they are drawn, and the two kinds of docs/algorithms.md. */
import * as echarts from 'echarts'

/** Colours that stay apart for all eyes (Okabe and Ito): the pair of the playground, the reports and the demo. */
const ADMITTED = '#0072b2'
const REFUSED = '#d55e00'
const REMAINING = '#444444'
export const LINES = ['#d55e00', '#0072b2', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000']

/** The lines of policies, as in the playground. */
const POLICY_LINES = [
  { color: '#0072b2', type: 'solid' },
  { color: '#00805d', type: 'dashed' },
  { color: '#94447a', type: 'dotted' },
]

/** Narrow, so that the texts stay legible where a phone scales the plot to its width. */
const SIZE = { width: 400, height: 310 }

const TEXT = { fontSize: 14 }

/** The length of a stretch in which calls are counted, in milliseconds. */
const STRETCH = 500

/** Draws what echarts' options say; with `title.text`, which is the picture's name, too. */
export function render(option, size = SIZE) {
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, ...size })
  chart.setOption({ animation: false, backgroundColor: '#ffffff', ...option })
  const svg = numberedAnew(chart.renderToSVGString())
  chart.dispose()
  // For those who hear a page instead of seeing it.
  return `${svg.replace('>', `><title>${option.title.text}</title>`)}\n`
}

/**
 * A plot's names within itself, from 0 on: echarts numbers them through all that a process draws, and a plot should not
 * differ by what was drawn before it.
 */
function numberedAnew(svg) {
  const known = new Map()
  return svg.replace(/\bzr\d+-(?:cls-|c)\d+\b/g, (name) => {
    known.set(name, known.get(name) ?? `n${known.size}`)
    return known.get(name)
  })
}

const Y_AXIS = { type: 'value', axisLabel: TEXT }

function frame(title, seconds) {
  return {
    textStyle: TEXT,
    title: { text: title, left: 'center', top: 4, textStyle: { fontSize: 13 } },
    legend: { bottom: 0, itemGap: 16, itemWidth: 28, textStyle: TEXT },
    grid: { left: 44, right: 44, top: 56, bottom: 68 },
    xAxis: {
      type: 'value',
      min: 0,
      max: seconds,
      name: 'seconds',
      nameLocation: 'middle',
      nameGap: 24,
      axisLabel: TEXT,
      nameTextStyle: TEXT,
    },
  }
}

/**
 * Calls admitted and refused, and what is left.
 *
 * @param {{ title: string, seconds: number, calls: { millis: number, allowed: boolean }[], remaining: number[][] }} plot
 */
export function bars({ title, seconds, calls, remaining }) {
  const stretches = Array.from({ length: (seconds * 1_000) / STRETCH }, (_, number) => number)
  // Bars are stacked by their place in the list: each list has all stretches.
  const counted = (wanted) =>
    stretches.map((stretch) => {
      const those = calls.filter(
        ({ millis, allowed }) => allowed === wanted && Math.floor(millis / STRETCH) === stretch,
      )
      return [((stretch + 0.5) * STRETCH) / 1_000, those.length || '-']
    })
  const bar = { type: 'bar', stack: 'calls', barWidth: 3 }
  return render({
    ...frame(title, seconds),
    yAxis: [
      {
        ...Y_AXIS,
        name: `calls per ${STRETCH} ms`,
        nameTextStyle: { ...TEXT, align: 'left', padding: [0, 0, 0, -30] },
      },
      {
        ...Y_AXIS,
        name: 'remaining',
        nameTextStyle: { ...TEXT, align: 'right', padding: [0, -30, 0, 0] },
        splitLine: { show: false },
        min: 0,
      },
    ],
    series: [
      { ...bar, name: 'admitted', data: counted(true), itemStyle: { color: ADMITTED } },
      { ...bar, name: 'refused', data: counted(false), itemStyle: { color: REFUSED } },
      {
        type: 'line',
        name: 'remaining',
        yAxisIndex: 1,
        data: remaining,
        showSymbol: false,
        lineStyle: { color: REMAINING, width: 1.5 },
        itemStyle: { color: REMAINING },
      },
    ],
  })
}

/**
 * Several lines, and the limit that they should not pass.
 *
 * @param {{ title: string, seconds: number, limit: number, series: { name: string, points: number[][] }[] }} plot
 */
export function lines({ title, seconds, limit, series }) {
  const limits = { silent: true, symbol: 'none', lineStyle: { color: '#888888' }, data: [{ yAxis: limit }] }
  const options = {
    ...frame(title, seconds),
    yAxis: { ...Y_AXIS, name: 'admitted', min: 0, nameTextStyle: TEXT },
    series: series.map(({ name, points }, number) => ({
      type: 'line',
      name,
      data: points,
      showSymbol: false,
      lineStyle: { ...POLICY_LINES[number], width: 2 },
      itemStyle: { color: POLICY_LINES[number].color },
      ...(number === 0 && { markLine: { ...limits, label: { ...TEXT, formatter: 'limit' } } }),
    })),
  }
  return render(options)
}
