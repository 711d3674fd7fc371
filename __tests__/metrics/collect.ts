import { type DataPoint, type Histogram, MeterProvider, MetricReader } from '@opentelemetry/sdk-metrics'

/** A metric reader that is read on demand, and exports nothing. */
class OnDemandReader extends MetricReader {
  protected async onForceFlush(): Promise<void> {}
  protected async onShutdown(): Promise<void> {}
}

/** A metric as it was collected. */
export interface CollectedMetric {
  readonly unit: string
  /**
   * A line for each series: its attributes, without the `tollgate.` of the names, and its value,
   * which for a histogram is the count.
   */
  readonly series: Readonly<Record<string, number>>
  /** Of a histogram: the bounds of its buckets, in seconds. */
  readonly boundaries: readonly number[] | undefined
}

/** OpenTelemetry's SDK, as a process that exports metrics sets it up. */
export class Collector {
  readonly #reader = new OnDemandReader()
  readonly provider = new MeterProvider({ readers: [this.#reader] })
  readonly meter = this.provider.getMeter('test')

  /** All metrics by name. */
  async collect(): Promise<Readonly<Record<string, CollectedMetric>>> {
    const { resourceMetrics, errors } = await this.#reader.collect()
    expect(errors).toEqual([])
    const metrics = resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics)
    return Object.fromEntries(
      metrics.map(({ descriptor, dataPoints }) => {
        const points = dataPoints as DataPoint<number | Histogram>[]
        const series = Object.fromEntries(points.map(({ attributes, value }) => [lineOf(attributes), countOf(value)]))
        const [first] = points
        const boundaries = typeof first?.value === 'object' ? first.value.buckets.boundaries : undefined
        return [descriptor.name, { unit: descriptor.unit, series, boundaries }]
      }),
    )
  }
}

function lineOf(attributes: object): string {
  const entries = Object.entries(attributes).map(([name, value]) => `${name.replace('tollgate.', '')}=${value}`)
  return entries.join(' ')
}

function countOf(value: number | Histogram): number {
  return typeof value === 'number' ? value : value.count
}
