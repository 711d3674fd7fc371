/** The plot of docs/local-decisions.md. */
import { LINES, render } from '../../../docs/plots/charts.mjs'

/** Narrow, because a page on a phone shrinks a wider picture with its text. */
const WIDTH = 440
const TEXT = '#333333'
const FONT = 13

/** The colours of the loads, and marks for those who do not see colours. */
const LOOKS = [
  { color: LINES[2], symbol: 'circle' },
  { color: LINES[1], symbol: 'triangle' },
  { color: LINES[0], symbol: 'rect' },
]

const PANELS = [
  {
    title: 'operations of the store for 100 calls',
    figure: 'operationsPer100Calls',
    scale: { min: 0, max: 100 },
    top: 66,
    height: 200,
  },
  {
    title: 'admitted calls, % of those without leases',
    figure: 'admittedPercent',
    scale: { min: ({ min }) => Math.min(95, Math.floor(min)), max: 101 },
    top: 340,
    height: 130,
  },
]

const HEIGHT = 550

/**
 * The figures of the hottest key, by the number of processes.
 *
 * @param {{ load: number, results: { processes: number, hottest: object }[] }[]} all
 * @param {number} callsPerSecond On the hottest key.
 */
export function plotOf(all, callsPerSecond) {
  const name = ({ load }) => `${load} × limit`
  const processes = all[0].results.map((result) => result.processes)
  const option = {
    title: {
      text: `One key, ${Math.round(callsPerSecond).toLocaleString('en')} calls per second: leases of 100 ms`,
      left: 'center',
      top: 6,
      textStyle: { fontSize: 15, color: TEXT },
    },
    legend: {
      bottom: 4,
      itemGap: 18,
      selectedMode: false,
      data: all.map(name),
      textStyle: { fontSize: FONT, color: TEXT },
    },
    grid: PANELS.map(({ top, height }) => ({ left: 44, right: 24, top, height })),
    xAxis: PANELS.map((_, index) => ({
      type: 'log',
      min: processes[0],
      max: processes.at(-1),
      gridIndex: index,
      name: 'processes',
      nameLocation: 'middle',
      nameGap: 24,
      nameTextStyle: { fontSize: FONT, color: TEXT },
      axisLabel: { fontSize: FONT, color: TEXT },
      axisLine: { onZero: false },
      splitLine: { show: false },
    })),
    yAxis: PANELS.map(({ title, scale }, index) => ({
      type: 'value',
      ...scale,
      gridIndex: index,
      name: title,
      nameTextStyle: { fontSize: FONT, color: TEXT, align: 'left', padding: [0, 0, 0, -38] },
      axisLabel: { fontSize: FONT, color: TEXT },
      splitLine: { lineStyle: { color: '#e4e4e4' } },
    })),
    series: PANELS.flatMap(({ figure }, index) =>
      all.map((load, number) => ({
        type: 'line',
        name: name(load),
        xAxisIndex: index,
        yAxisIndex: index,
        data: load.results.map((result) => [result.processes, Number(result.hottest[figure].toFixed(2))]),
        symbol: LOOKS[number].symbol,
        symbolSize: 7,
        clip: false,
        lineStyle: { color: LOOKS[number].color, width: 2 },
        itemStyle: { color: LOOKS[number].color },
      })),
    ),
  }
  return render(option, { width: WIDTH, height: HEIGHT })
}
