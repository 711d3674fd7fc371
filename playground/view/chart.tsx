/** A plot on the page. */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import { dataOf, optionsOf, type Plot, themeOf } from './plots.js'

interface ChartProps {
  readonly title: string
  readonly plot: Plot
  /** What there is to see, for those who do not see it. */
  readonly says: string
  /** What a column holds, in words: of the one under the pointer. */
  readonly read: (column: number) => string
  /** What the dashed line is, if there is one. */
  readonly bound?: string
}

const HEIGHT = 132

/** Which of the colour schemes is in force: a plot is drawn anew when that changes. */
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

/** A figure with its title, what is under the pointer, and the plot. */
export function Chart({ title, plot, says, read, bound }: ChartProps) {
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
    const size = () => ({ width: Math.max(120, element.clientWidth), height: HEIGHT })
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
    // Titles of axes have units in them, which come from the length.
  }, [scheme, plot.lengthUs])

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
      <div ref={place} role="img" aria-label={says} />
    </figure>
  )
}
