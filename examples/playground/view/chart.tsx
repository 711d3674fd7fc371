/** A plot on the page. */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import { axisUnit } from '../model/words.js'
import { dataOf, optionsOf, type Plot, themeOf } from './plots.js'

interface ChartProps {
  readonly title: string
  readonly plot: Plot
  /** The text alternative for screen readers. */
  readonly description: string
  /** The text for the column under the pointer. */
  readonly read: (column: number) => string
  /** The label of the dashed line, if there is one. */
  readonly bound?: string
  /** The height in pixels. */
  readonly height?: number
  /** Called with the time, in microseconds, that the user clicked. */
  readonly onPick?: (us: number) => void
}

const HEIGHT = 132

/** The current colour scheme: a plot is redrawn when it changes. */
function useScheme(): string {
  const [scheme, setScheme] = useState('')
  useEffect(() => {
    const query = matchMedia('(prefers-color-scheme: dark)')
    const change = () => setScheme(query.matches ? 'dark' : 'light')
    change()
    query.addEventListener('change', change)
    return () => query.removeEventListener('change', change)
  }, [])
  return scheme
}

/** A figure with its title, the values under the pointer, and the plot. */
export function Chart({ title, plot, description, read, bound, height = HEIGHT, onPick }: ChartProps) {
  const place = useRef<HTMLDivElement>(null)
  const chart = useRef<uPlot>(null)
  const current = useRef(plot)
  const [column, setColumn] = useState<number | null>(null)
  const scheme = useScheme()
  current.current = plot

  useLayoutEffect(() => {
    const element = place.current
    if (element === null) {
      return
    }
    const size = () => ({ width: Math.max(120, element.clientWidth), height })
    const options = optionsOf(uPlot, themeOf(element), size(), () => current.current, setColumn)
    const drawn = new uPlot(options, dataOf(current.current), element)
    chart.current = drawn
    const observer = new ResizeObserver(() => drawn.setSize(size()))
    observer.observe(element)
    return () => {
      observer.disconnect()
      drawn.destroy()
      chart.current = null
    }
    // The axis titles contain units, which depend on the length.
    // A plot of another number of lines needs other options.
  }, [scheme, plot.lengthUs, plot.series.length, height])

  useEffect(() => {
    chart.current?.setData(dataOf(plot))
  }, [plot])

  return (
    <figure class="chart">
      <figcaption>
        <span>{title}</span>
        <span class={`read${column === null && bound !== undefined ? ' bound' : ''}`}>
          {column === null ? bound : read(column)}
        </span>
      </figcaption>
      {/* A click is a shortcut for a button beside the plot, which the keyboard reaches. */}
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: see above */}
      <div
        ref={place}
        role="img"
        aria-label={description}
        style={{ minHeight: `${height}px` }}
        onClick={() => {
          const left = chart.current?.cursor.left ?? -1
          const at = left < 0 ? undefined : chart.current?.posToVal(left, 'x')
          if (at !== undefined) {
            onPick?.(at * axisUnit(plot.lengthUs)[1])
          }
        }}
      />
    </figure>
  )
}
