/** The two kinds of plots of docs/performance.md. */
import { LINES, render } from '../../../docs/plots/charts.mjs'

const GREY = '#888888'
const TEXT = '#333333'

/**
 * @typedef {object} Line
 * @property {string} name
 * @property {[x: number, y: number][]} points
 * @property {boolean} [isBound] A grey, dashed line without marks: an upper or lower bound.
 *
 * @typedef {object} Panel
 * @property {string} y The measured figure, with its unit.
 * @property {boolean} [log] Whether the axis is logarithmic.
 * @property {Line[]} lines
 */

/**
 * The size of a panel with its margins. A row has two panels: wider pictures are shrunk, with their
 * text.
 */
const PANEL = { width: 450, height: 270 }
const COLUMNS = 2

/** The title is above the panels; the legend is below them, or in the last cell if that is free. */
const HEAD = 30
const LINE = 22

/** A logarithmic axis extends beyond its values by this factor at most. */
const STEP = 10

/** Contenders with a fixed colour in all plots. All others share the remaining colour. */
const PLACES = [
  /^tollgate.*fixedWindow/,
  /^tollgate.*(gcra|await)/,
  /by hand/,
  /node-redis/,
  /rate-limiter-flexible|Union/,
]
const [FIXED, RATE, HAND, NODE, PEER] = [0, 1, 2, 3, 4]
const COLOURS = { [FIXED]: 0, [RATE]: 1, [HAND]: 2, [NODE]: 3, [PEER]: 4 }

/** Line styles for several contenders of one colour. */
const DASHES = ['solid', 'dashed', 'dotted']

/** The line style of each name. Contenders of one kind share a colour, and differ by dashes. */
function looksOf(lines) {
  const used = new Map()
  const looks = new Map()
  for (const { name, isBound } of lines) {
    if (looks.has(name)) continue
    const kind = PLACES.findIndex((pattern) => pattern.test(name))
    const colour = isBound ? GREY : LINES[COLOURS[kind] ?? 5]
    const before = used.get(colour) ?? 0
    used.set(colour, before + 1)
    looks.set(name, { color: colour, width: 2, type: isBound ? 'dashed' : DASHES[before] })
  }
  return looks
}

/**
 * Panels with the same x axis.
 *
 * @param {{ title: string, x: string, logX?: boolean, panels: Panel[] }} plot
 */
export function panels({ title, x, logX = false, panels: shown }) {
  const looks = looksOf(shown.flatMap(({ lines }) => lines))
  const hasRoom = shown.length % COLUMNS !== 0
  const rows = Math.ceil(shown.length / COLUMNS)
  const below = hasRoom ? 0 : LINE * looks.size + 6
  const size = { width: PANEL.width * COLUMNS, height: HEAD + rows * PANEL.height + below }
  const names = {
    orient: 'vertical',
    itemWidth: 40,
    left: hasRoom ? PANEL.width + 60 : 'center',
    ...(hasRoom ? { top: HEAD + (rows - 1) * PANEL.height + 50 } : { bottom: 4 }),
  }
  const axis = {
    axisLabel: { color: TEXT },
    nameTextStyle: { color: TEXT },
    splitLine: { lineStyle: { color: '#e4e4e4' } },
  }
  const option = {
    title: { text: title, left: 'center', top: 6, textStyle: { fontSize: 15 } },
    legend: { ...names, data: [...looks.keys()], textStyle: { color: TEXT } },
    grid: shown.map((_, index) => ({
      left: (index % COLUMNS) * PANEL.width + 66,
      width: PANEL.width - 96,
      top: HEAD + Math.floor(index / COLUMNS) * PANEL.height + 34,
      height: PANEL.height - 88,
    })),
    xAxis: shown.map((panel, index) => ({
      ...axis,
      ...scaleOf(
        panel.lines.flatMap(({ points }) => points.map(([value]) => value)),
        logX,
      ),
      gridIndex: index,
      name: x,
      nameLocation: 'middle',
      nameGap: 26,
      axisLabel: { ...axis.axisLabel, formatter: short },
      splitLine: { show: false },
      axisLine: { onZero: false },
    })),
    yAxis: shown.map(({ y, log = false, lines }, index) => ({
      ...axis,
      ...scaleOf(
        lines.flatMap(({ points }) => points.map(([, value]) => value)),
        log,
      ),
      gridIndex: index,
      name: log ? `${y} (log)` : y,
      nameTextStyle: { ...axis.nameTextStyle, align: 'left', padding: [0, 0, 0, -48] },
      axisLabel: { ...axis.axisLabel, formatter: short },
    })),
    series: shown.flatMap(({ lines }, index) =>
      lines.map(({ name, points, isBound }) => ({
        type: 'line',
        name,
        xAxisIndex: index,
        yAxisIndex: index,
        data: points,
        symbol: isBound ? 'none' : 'circle',
        symbolSize: 5,
        lineStyle: looks.get(name),
        itemStyle: { color: looks.get(name).color },
      })),
    ),
  }
  return render(option, size)
}

/** A linear axis from zero, or a logarithmic one. */
function scaleOf(values, log) {
  if (!log) return { type: 'value', min: 0 }
  const present = values.filter((value) => value > 0)
  const [low, high] = [Math.min(...present), Math.max(...present)]
  return {
    type: 'log',
    min: Math.max(10 ** Math.floor(Math.log10(low)), low / STEP),
    max: Math.min(10 ** Math.ceil(Math.log10(high)), high * STEP),
  }
}

/**
 * Horizontal bars with their figures.
 *
 * @param {object} plot
 * @param {string} plot.title
 * @param {string} plot.x The measured figure, with its unit.
 * @param {{ name: string, value: number, colour?: number }[]} plot.bars From top to bottom.
 * @param {(value: number) => string} plot.text
 * @param {number} [plot.mark] A value to mark with a line through all bars.
 * @param {boolean} [plot.isRatio] Bars begin at 1 on a logarithmic axis, so 2 and 0.5 have the same
 *   length.
 * @param {number} [plot.width]
 */
export function bars({ title, x, bars: shown, text, mark, isRatio = false, width = 900 }) {
  const longest = Math.max(...shown.map(({ name }) => name.length))
  const marks = mark !== undefined && {
    silent: true,
    symbol: 'none',
    lineStyle: { color: GREY, type: 'dashed' },
    label: { show: false },
    data: [{ xAxis: mark }],
  }
  const values = shown.map(({ value }) => value)
  const ratios = isRatio && {
    type: 'log',
    logBase: 2,
    min: 2 ** Math.floor(Math.log2(Math.min(...values, 0.6) / 1.2)),
    max: 2 ** Math.ceil(Math.log2(Math.max(...values, 2))),
  }
  const height = 24 * shown.length + 108
  const option = {
    title: { text: title, left: 'center', top: 6, textStyle: { fontSize: 15 } },
    grid: { left: longest * 6.8 + 24, right: 70, top: 40, bottom: 58 },
    xAxis: {
      type: 'value',
      ...ratios,
      name: x,
      nameLocation: 'middle',
      nameGap: 26,
      nameTextStyle: { color: TEXT },
      axisLabel: { color: TEXT, formatter: short },
      splitLine: { lineStyle: { color: '#e4e4e4' } },
    },
    yAxis: {
      type: 'category',
      inverse: true,
      data: shown.map(({ name }) => name),
      axisLabel: { color: TEXT, interval: 0 },
      axisTick: { show: false },
      axisLine: { show: !isRatio },
    },
    series: [
      {
        type: 'bar',
        barWidth: 14,
        data: shown.map(({ value, colour = 0 }) => ({
          value,
          itemStyle: { color: LINES[colour] },
          label: { show: true, position: isRatio && value < 1 ? 'left' : 'right', color: TEXT, formatter: text(value) },
        })),
        ...(marks && { markLine: marks }),
      },
    ],
  }
  return render(option, { width, height })
}

/** A number on an axis. */
function short(value) {
  if (value >= 1e6) return `${trimmed(value / 1e6)}M`
  return value >= 1e3 ? `${trimmed(value / 1e3)}k` : `${trimmed(value)}`
}

function trimmed(value) {
  return Number(value.toPrecision(3))
}
