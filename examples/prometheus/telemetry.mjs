// OpenTelemetry for this process. Import it before any instrumentation: until a MeterProvider is
// set, the global one returns meters that do nothing.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { metrics } from '@opentelemetry/api'
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus'
import { MeterProvider } from '@opentelemetry/sdk-metrics'

const exporter = new PrometheusExporter({ preventServerStart: true })
metrics.setGlobalMeterProvider(new MeterProvider({ readers: [exporter] }))

/** Serves the metrics on a separate port, which clients of the app need not reach. */
export async function serveMetrics(port) {
  const server = createServer((req, res) => exporter.getMetricsRequestHandler(req, res)).listen(port)
  await once(server, 'listening')
  return server
}
