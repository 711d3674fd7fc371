/** The options for uPlot of the plots: three for each policy, and one that compares all. */
import type uPlot from 'uplot'
import { axisUnit } from '../model/words.js'

/** The data of a plot. */
export interface Plot {
  readonly kind: 'calls' | 'level' | 'rolling' | 'compared'
  readonly lengthUs: number
  /** The columns, in one or more lists. */
  readonly series: readonly (readonly number[])[]
  /** The maximum of the scale, which all policies share. */
  readonly top: number
  /** Horizontal lines: the bound, or the limits that were typed. */
  readonly lines?: readonly number[]
  /** A shaded time span, in microseconds. */
  readonly band?: readonly [from: number, to: number]
}

/** The colours of the page's current style. */
export interface Theme {
  readonly ink: string
  readonly muted: string
  readonly rule: string
  readonly accent: string
  readonly wash: string
  readonly shade: string
  readonly refused: string
  /** The colours of the policies. */
  readonly policies: readonly string[]
  readonly font: string
}

/** Reads the colours from the page's style. */
export function themeOf(element: Element): Theme {
  const style = getComputedStyle(element)
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim()
  return {
    ink: colour('ink'),
    muted: colour('muted'),
    rule: colour('rule'),
    accent: colour('accent'),
    wash: colour('wash'),
    shade: colour('shade'),
    refused: colour('refused'),
    policies: ['policy-1', 'policy-2', 'policy-3'].map(colour),
    font: `12px ${style.fontFamily}`,
  }
}

/** The positions of the columns and the lists, as uPlot takes them. */
export function dataOf({ kind, lengthUs, series }: Plot): uPlot.AlignedData {
  const columns = series[0]?.length ?? 0
  const [, unit] = axisUnit(lengthUs)
  const width = lengthUs / columns / unit
  // A level is plotted at the end of its column, calls in the middle.
  const shift = kind === 'level' ? 1 : 0.5
  const x = Array.from({ length: columns }, (_, column) => (column + shift) * width)
  if (kind !== 'calls') {
    return [x, ...series.map((list) => [...list])]
  }
  const [admitted = [], refused = []] = series
  // Stacked: the lower series is drawn over the sum of both.
  return [x, admitted.map((number, column) => number + (refused[column] ?? 0)), [...admitted]]
}

/** The drawing hooks read the current plot from `plot()`. */
export function optionsOf(
  uplot: typeof uPlot,
  theme: Theme,
  size: { readonly width: number; readonly height: number },
  plot: () => Plot,
  onColumn: (column: number | null) => void,
): uPlot.Options {
  const { lengthUs } = plot()
  const [unit] = axisUnit(lengthUs)
  const axis = { stroke: theme.muted, font: theme.font, ticks: { show: false }, grid: { stroke: theme.rule, width: 1 } }
  return {
    ...size,
    padding: [8, 12, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: false, y: false },
      points: { show: false },
      sync: { key: 'playground', setSeries: false },
    },
    scales: {
      x: { time: false, range: () => [0, plot().lengthUs / axisUnit(plot().lengthUs)[1]] },
      y: { range: () => [0, Math.max(1, plot().top) * 1.06] },
    },
    axes: [
      {
        ...axis,
        size: 22,
        gap: 4,
        space: 56,
        grid: { show: false },
        values: (_, ticks) => ticks.map((tick, index) => (index === ticks.length - 1 ? `${tick} ${unit}` : `${tick}`)),
      },
      {
        ...axis,
        size: 46,
        gap: 6,
        space: 28,
        incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6, 1e7, 1e9, 1e12, 1e15],
      },
    ],
    series: [{}, ...seriesOf(uplot, plot(), theme)],
    hooks: {
      drawClear: [(chart) => shade(chart, plot(), theme)],
      draw: [(chart) => rule(chart, plot(), theme)],
      setCursor: [({ cursor }) => onColumn(cursor.idx ?? null)],
    },
  }
}

/** The dashes of the policies' lines, so that they do not differ only by colour. */
const DASHES = [[], [7, 4], [2, 3]] as const

function seriesOf(uplot: typeof uPlot, { kind, series }: Plot, theme: Theme): uPlot.Series[] {
  const { bars, stepped, linear } = uplot.paths
  const hidden = { points: { show: false } }
  if (kind === 'calls') {
    const paths = bars?.({ size: [1, 14, 1], gap: 0 }) as uPlot.Series.PathBuilder
    // Refused calls are also hatched, so that they do not differ only by colour.
    return [
      { ...hidden, paths, width: 0, fill: (chart) => hatching(chart, theme) },
      { ...hidden, paths, width: 0, fill: theme.accent },
    ]
  }
  const paths = (kind === 'level' ? linear?.() : stepped?.({ align: 0 } as never)) ?? linear?.()
  const path = paths === undefined ? {} : { paths }
  if (kind === 'compared') {
    return series.map((_, index) => ({
      ...hidden,
      ...path,
      width: 2.25,
      stroke: theme.policies[index] ?? theme.ink,
      dash: [...(DASHES[index] ?? [])],
    }))
  }
  return [{ ...hidden, ...path, width: 1.75, stroke: theme.accent, fill: theme.wash }]
}

/** A hatching in the colour of refusals. */
function hatching({ ctx }: uPlot, theme: Theme): CanvasPattern | string {
  const scale = Math.max(1, Math.round(devicePixelRatio))
  const tile = document.createElement('canvas')
  const side = 5 * scale
  tile.width = side
  tile.height = side
  const pen = tile.getContext('2d')
  if (pen === null) {
    return theme.refused
  }
  pen.strokeStyle = theme.refused
  pen.lineWidth = 2.1 * scale
  for (const shift of [-side, 0, side]) {
    pen.moveTo(shift - 1, side + 1)
    pen.lineTo(shift + side + 1, -1)
  }
  pen.stroke()
  return ctx.createPattern(tile, 'repeat') ?? theme.refused
}

/** Draws the worst span, behind everything else. */
function shade({ ctx, bbox, valToPos }: uPlot, { band, lengthUs }: Plot, theme: Theme): void {
  if (band === undefined) {
    return
  }
  const [, unit] = axisUnit(lengthUs)
  const [from, to] = band.map((us) => valToPos(Math.min(us, lengthUs) / unit, 'x', true)) as [number, number]
  ctx.save()
  ctx.fillStyle = theme.shade
  ctx.fillRect(from, bbox.top, Math.max(2, to - from), bbox.height)
  ctx.restore()
}

/** Draws the bound, or the typed limits, as dashed lines. */
function rule({ ctx, bbox, valToPos }: uPlot, { lines = [] }: Plot, theme: Theme): void {
  const scale = devicePixelRatio
  ctx.save()
  ctx.strokeStyle = theme.ink
  ctx.lineWidth = 1.25 * scale
  ctx.setLineDash([6 * scale, 4 * scale])
  for (const line of lines) {
    const y = Math.round(valToPos(line, 'y', true)) + 0.5
    ctx.beginPath()
    ctx.moveTo(bbox.left, y)
    ctx.lineTo(bbox.left + bbox.width, y)
    ctx.stroke()
  }
  ctx.restore()
}
