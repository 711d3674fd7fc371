/** The plot of docs/fault-report.md: the kind of each cell. */
import { render } from '../../../docs/plots/charts.mjs'
import { kindOf } from './findings.mjs'

/** Colours that stay apart for all eyes, and signs for those who see none. */
const KINDS = {
  nothing: { title: 'nothing to report', colour: '#009e73', sign: '' },
  answers: { title: 'errors, or late answers', colour: '#e69f00', sign: '!' },
  counts: { title: 'units wrong', colour: '#d55e00', sign: '×' },
  unsupported: { title: 'not supported', colour: '#d0d0d0', sign: '–' },
}

const CELL = { width: 52, height: 26 }
const [LEFT, TOP, BELOW] = [310, 150, 50]

/** @param {import('./record.mjs').Report} record */
export function plot({ contenders, scenarios, cells }) {
  const size = {
    width: LEFT + CELL.width * scenarios.length + 20,
    height: TOP + CELL.height * contenders.length + BELOW,
  }
  const data = contenders.flatMap(({ name }, row) =>
    scenarios.map((scenario, column) => ({ kind: kindOf(cells[name][scenario.name]), value: [column, row, 0] })),
  )
  const axis = { type: 'category', splitArea: { show: false }, axisTick: { show: false }, axisLine: { show: false } }
  const series = Object.entries(KINDS).map(([kind, { title, colour, sign }]) => ({
    type: 'custom',
    name: title,
    itemStyle: { color: colour },
    data: data.filter((cell) => cell.kind === kind).map(({ value }) => value),
    renderItem: (_, api) => {
      const [x, y] = api.coord([api.value(0), api.value(1)])
      const shape = {
        x: x - CELL.width / 2 + 1,
        y: y - CELL.height / 2 + 1,
        width: CELL.width - 2,
        height: CELL.height - 2,
      }
      const text = { text: sign, fill: '#000000', font: '14px sans-serif' }
      return {
        type: 'rect',
        shape,
        style: { fill: colour },
        textContent: { style: text },
        textConfig: { position: 'inside' },
      }
    },
  }))
  const option = {
    title: { text: 'What each rate limiter got wrong, by fault', left: 'center', top: 6, textStyle: { fontSize: 15 } },
    legend: { bottom: 8, itemGap: 28, data: series.map(({ name }) => name), textStyle: { color: '#333333' } },
    grid: { left: LEFT, right: 20, top: TOP, bottom: BELOW },
    xAxis: {
      ...axis,
      position: 'top',
      data: scenarios.map(({ name }) => name),
      axisLabel: { rotate: 50, interval: 0, color: '#333333' },
    },
    yAxis: {
      ...axis,
      inverse: true,
      data: contenders.map(({ title }) => title.replaceAll('`', '')),
      axisLabel: { interval: 0, color: '#333333' },
    },
    series,
  }
  return render(option, size)
}
