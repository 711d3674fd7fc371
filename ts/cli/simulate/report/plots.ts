/** Draws the plots of a report in the browser. The page contains this program and its data, and loads nothing. */
import uPlot from 'uplot'
import { shownTime } from '../../format.js'

/** The data in the page. Times are epoch milliseconds. */
export interface PlotData {
  readonly from: number
  readonly stepMs: number
  readonly requests: readonly number[]
  readonly refused: readonly (readonly number[])[]
}

const HEIGHT = 190

const { from, stepMs, requests, refused } = JSON.parse(document.querySelector('#data')?.textContent ?? '') as PlotData

/** In seconds, as the library needs them. */
const times = requests.map((_, interval) => (from + interval * stepMs) / 1_000)

const dark = matchMedia('(prefers-color-scheme: dark)')
const plots: { readonly element: HTMLElement; readonly plot: uPlot }[] = []

function drawAll(): void {
  for (const { plot } of plots.splice(0)) {
    plot.destroy()
  }
  for (const element of document.querySelectorAll<HTMLElement>('[data-plot]')) {
    const counts = refused[Number(element.getAttribute('data-policy'))] ?? []
    const plot =
      element.getAttribute('data-plot') === 'requests' ? requestsPlot(element, counts) : refusedPlot(element, counts)
    plots.push({ element, plot })
  }
}

/** Draws all requests, and the admitted ones in front of them. The visible rest was refused. */
function requestsPlot(element: HTMLElement, counts: readonly number[]): uPlot {
  const admitted = requests.map((count, interval) => count - (counts[interval] ?? 0))
  const refusedOf = (plot: uPlot, interval: number | null) =>
    interval === null ? null : (plot.data[1]?.[interval] ?? 0) - (plot.data[2]?.[interval] ?? 0)
  const series = [
    {
      ...bars('refused', colour('--refused')),
      value: (plot: uPlot, _: number, __: number, at: number | null) => shown(refusedOf(plot, at)),
    },
    { ...bars('admitted', colour('--admitted')), value: (_: uPlot, value: number | null) => shown(value) },
  ]
  return draw(element, series, [times, [...requests], admitted])
}

function refusedPlot(element: HTMLElement, counts: readonly number[]): uPlot {
  const series = [{ ...bars('refused', colour('--refused')), value: (_: uPlot, value: number | null) => shown(value) }]
  return draw(element, series, [times, [...counts]])
}

function draw(element: HTMLElement, series: uPlot.Series[], data: uPlot.AlignedData): uPlot {
  const axis = {
    stroke: colour('--text'),
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { stroke: colour('--line') },
  }
  const end = (times.at(-1) ?? 0) + stepMs / 1_000
  const options: uPlot.Options = {
    width: element.clientWidth,
    height: HEIGHT,
    // In UTC, like the times of the tables.
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1_000), 'Etc/UTC'),
    scales: {
      x: { range: (_, low, high) => (low === high ? [from / 1_000, end] : [low, high === times.at(-1) ? end : high]) },
      y: { range: (_, __, high) => [0, Math.max(1, high * 1.05)] },
    },
    axes: [
      {
        ...axis,
        values: (_, splits, __, ___, step) => splits.map((seconds, index) => tick(seconds, step, index === 0)),
      },
      {
        ...axis,
        size: 64,
        values: (_, splits) => splits.map((count) => (Number.isInteger(count) ? shown(count) : '')),
      },
    ],
    series: [
      { label: 'from', value: (_, seconds) => (seconds === null ? '–' : shownTime(seconds * 1_000)) },
      ...series,
    ],
    cursor: { y: false },
  }
  return new uPlot(options, data, element)
}

function bars(label: string, fill: string): uPlot.Series {
  return {
    label,
    fill,
    width: 0,
    points: { show: false },
    paths: uPlot.paths.bars?.({ size: [1, Infinity], align: 1 }) as uPlot.Series.PathBuilder,
  }
}

/** The label of a tick: the time of day, and the date where it changes. */
function tick(seconds: number, step: number, isFirst: boolean): string {
  const [date = '', clock = ''] = shownTime(seconds * 1_000).split(' ')
  if (step >= 86_400) {
    return date
  }
  const short = step < 60 ? clock : clock.slice(0, 5)
  return isFirst || clock === '00:00:00' ? `${short}\n${date}` : short
}

function shown(count: number | null): string {
  return count === null ? '–' : count.toLocaleString('en-US')
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim()
}

drawAll()
dark.addEventListener('change', drawAll)
addEventListener('resize', () => {
  for (const { element, plot } of plots) {
    plot.setSize({ width: element.clientWidth, height: HEIGHT })
  }
})
