/** The two kinds of plots of docs/performance.md. */
import { LINES, render } from '../../docs/plots/charts.mjs'

const GREY = '#888888'
const TEXT = '#333333'

/**
 * @typedef {object} Line
 * @property {string} name
 * @property {[x: number, y: number][]} points
 * @property {boolean} [isBound] A grey, dashed line without marks: what cannot be passed.
 *
 * @typedef {object} Panel
 * @property {string} y What is measured, with its unit.
 * @property {boolean} [log] Whether the axis is logarithmic.
 * @property {Line[]} lines
 */

/** So high is a panel with what is around it. */
const PANEL = { width: 470, height: 330 }

/** How far a logarithmic axis goes beyond what is on it, at most. */
const STEP = 10

/**
 * Panels side by side over one kind of axis; a series has the same colour in all of them.
 *
 * @param {{ title: string, x: string, logX?: boolean, panels: Panel[] }} plot
 */
export function panels({ title, x, logX = false, panels: shown }) {
  const names = [...new Set(shown.flatMap(({ lines }) => lines.map(({ name }) => name)))]
  const colour = new Map(names.filter((name) => !isBound(name)).map((name, index) => [name, LINES[index]]))
  const width = PANEL.width * shown.length
  // Long names need a line each.
  const perLine = Math.max(1, Math.floor(width / 300))
  const legend = Math.ceil(names.length / perLine) * 20

  function isBound(name) {
    return shown.some(({ lines }) => lines.some((line) => line.name === name && line.isBound))
  }

  const place = (index) => ({ left: index * PANEL.width + 66, width: PANEL.width - 96, top: 62, bottom: 46 + legend })
  const axis = {
    axisLabel: { color: TEXT },
    nameTextStyle: { color: TEXT },
    splitLine: { lineStyle: { color: '#e4e4e4' } },
  }
  const option = {
    title: { text: title, left: 'center', top: 6, textStyle: { fontSize: 15 } },
    legend: { bottom: 4, itemGap: 18, data: names, textStyle: { color: TEXT } },
    grid: shown.map((_, index) => place(index)),
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
      lines.map((line) => ({
        type: 'line',
        name: line.name,
        xAxisIndex: index,
        yAxisIndex: index,
        data: line.points,
        symbol: line.isBound ? 'none' : 'circle',
        symbolSize: 5,
        lineStyle: {
          width: 2,
          color: line.isBound ? GREY : colour.get(line.name),
          type: line.isBound ? 'dashed' : 'solid',
        },
        itemStyle: { color: line.isBound ? GREY : colour.get(line.name) },
      })),
    ),
  }
  return render(option, { width, height: PANEL.height + legend })
}

/** An axis from nought, or by powers of ten. */
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
 * Bars from left to right, one below the other, each with its figure.
 *
 * @param {object} plot
 * @param {string} plot.title
 * @param {string} plot.x What is measured, with its unit.
 * @param {{ name: string, value: number, colour?: number }[]} plot.bars From top to bottom.
 * @param {(value: number) => string} plot.text
 * @param {{ name: string, value: number }} [plot.mark] A value that is drawn through all bars.
 * @param {boolean} [plot.isRatio] Bars begin at 1, on a logarithmic axis: twice and half are equally far from it.
 */
export function bars({ title, x, bars: shown, text, mark, isRatio = false }) {
  const longest = Math.max(...shown.map(({ name }) => name.length))
  const marks = mark && {
    silent: true,
    symbol: 'none',
    lineStyle: { color: GREY, type: 'dashed' },
    label: { formatter: mark.name, position: 'start', color: TEXT, distance: 4 },
    data: [{ xAxis: mark.value }],
  }
  const values = shown.map(({ value }) => value)
  const ratios = isRatio && {
    type: 'log',
    logBase: 2,
    min: 2 ** Math.floor(Math.log2(Math.min(...values, 0.5))),
    max: 2 ** Math.ceil(Math.log2(Math.max(...values, 2))),
  }
  const height = 24 * shown.length + 108
  const option = {
    title: { text: title, left: 'center', top: 6, textStyle: { fontSize: 15 } },
    grid: { left: longest * 6.4 + 24, right: 70, top: 40, bottom: 58 },
    xAxis: {
      type: 'value',
      ...ratios,
      name: x,
      nameLocation: 'middle',
      nameGap: mark === undefined ? 26 : 36,
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
  return render(option, { width: 900, height })
}

/** A number on an axis. */
function short(value) {
  if (value >= 1e6) return `${trimmed(value / 1e6)}M`
  return value >= 1e3 ? `${trimmed(value / 1e3)}k` : `${trimmed(value)}`
}

function trimmed(value) {
  return Number(value.toPrecision(3))
}
