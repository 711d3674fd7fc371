/** An HTTP server with middleware, outgoing calls to it, and metrics. */
import { once } from 'node:events'
import { Agent, createServer, get } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { MeterProvider, MetricReader } from '@opentelemetry/sdk-metrics'
import express from 'express'
import { concurrency, gcra, RateLimiter, RedisStore } from 'tollgate'
import { OutgoingClient } from 'tollgate/client'
import { rateLimit } from 'tollgate/express'
import { withRateLimit } from 'tollgate/fetch'
import { instrument, instrumentClient, instrumentStore } from 'tollgate/metrics'
import type { Activity, Bench } from './activity.js'

/** Read on demand; exports nothing. */
class OnDemandReader extends MetricReader {
  protected async onForceFlush(): Promise<void> {}
  protected async onShutdown(): Promise<void> {}
}

/** A server limited by the middleware of Express, and a Web handler; both with metrics. */
export async function middleware(bench: Bench): Promise<Activity[]> {
  const { store, calls, target } = bench
  const reader = new OnDemandReader()
  const meter = new MeterProvider({ readers: [reader] }).getMeter('soak')
  const policy = gcra({ limit: 20, period: '1s' })
  const limiter = instrument(new RateLimiter(policy, { store, prefix: 'http' }), { name: target, meter })
  if (store instanceof RedisStore) {
    instrumentStore(store, { name: target, meter })
  }
  const app = express()
  app.use(rateLimit({ limiter, key: (request) => `${request.headers['x-user']}` }))
  app.get('/', (_, response) => {
    response.send('hello')
  })
  // Without a decision the answer is 503: the default, without its line on the console.
  const onError: express.ErrorRequestHandler = (_, __, response, ___) => {
    response.sendStatus(503)
  }
  app.use(onError)
  const server = createServer(app).listen(0, '127.0.0.1')
  // Never closes a connection that the client is about to use.
  server.keepAliveTimeout = 0
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const agent = new Agent({ keepAlive: true })
  const request = async () => {
    const sent = get({ port, agent, headers: { 'x-user': bench.key() } })
    const [response] = (await once(sent, 'response')) as [NodeJS.ReadableStream & { statusCode: number }]
    response.resume()
    await once(response, 'end')
    if (![200, 429, 503].includes(response.statusCode)) {
      calls.violate(`an HTTP answer has status ${response.statusCode}`)
    }
  }
  const handler = withRateLimit(() => new Response('hello'), {
    limiter,
    key: () => bench.key(),
    onError: () => new Response('', { status: 503 }),
  })
  return [
    {
      everyMs: 200,
      run: () => calls.make(bench.safe('HTTP'), request),
      close: async () => {
        agent.destroy()
        server.close()
        server.closeAllConnections()
        await limiter.close()
      },
    },
    {
      everyMs: 500,
      run: () =>
        calls.make(bench.safe('fetch handler'), () => Promise.resolve(handler(new Request('http://localhost/')))),
    },
    { everyMs: 5_000, run: () => reader.collect() },
  ]
}

/** What a server of somebody else answers. */
const ANSWERS: readonly ResponseInit[] = [
  ...Array.from({ length: 8 }, () => ({ status: 200 })),
  { status: 429, headers: { 'retry-after-ms': '50' } },
  { status: 503 },
]

const MAX_WAIT_MS = 2_000

/** Outgoing calls with turns, priorities and retries; and clients that are created and closed. */
export function outgoing(bench: Bench): Activity[] {
  const { store, calls } = bench
  const reader = new OnDemandReader()
  const meter = new MeterProvider({ readers: [reader] }).getMeter('soak')
  const rate = new RateLimiter(gcra({ limit: 20, period: '1s', burst: 2 }), { store, prefix: 'outgoing-rate' })
  const slots = new RateLimiter(
    { rate: gcra({ limit: 20, period: '1s' }), atOnce: concurrency({ limit: 3, ttl: '2s' }) },
    { store, prefix: 'outgoing-slots' },
  )
  const fetch = async () => {
    await sleep(bench.below(20))
    return new Response('', ANSWERS[bench.below(ANSWERS.length)])
  }
  const retries = { limit: 1, minDelay: '20ms', maxDelay: '50ms' } as const
  const options = { maxWait: MAX_WAIT_MS, maxQueued: 50, retries, fetch, key: 'api' }
  const client = new OutgoingClient({ ...options, limiter: rate })
  instrumentClient(client, { name: bench.target, meter })
  // Two attempts, each with its turn, and the time for the call itself.
  const kind = bench.kind('outgoing', 2 * (MAX_WAIT_MS + bench.timeoutMs) + 500, [
    'WAIT_TOO_LONG',
    'OVERLOADED',
    'ABORTED',
    'CLOSED',
    'PERMIT_LOST',
  ])
  return [
    {
      everyMs: 200,
      run: () => calls.make(kind, () => client.fetch('http://api.example/', { method: 'GET' })),
      close: async () => {
        await client.close({ timeout: 500 })
        await rate.close()
      },
    },
    {
      everyMs: 300,
      run: () => calls.make(kind, () => client.schedule(fetch, { priority: bench.below(5), isIdempotent: true })),
    },
    {
      everyMs: 1_000,
      run: async () => {
        const brief = new OutgoingClient({ ...options, limiter: slots })
        const all = Array.from({ length: 4 }, () => calls.make(kind, () => brief.schedule(() => sleep(50))))
        await (bench.random() < 0.5 && Promise.all(all))
        await calls.make(bench.kind('close', 1_000), () => brief.close({ timeout: 500 }))
        await Promise.all(all)
      },
      close: () => slots.close(),
    },
    { everyMs: 5_000, run: () => reader.collect() },
  ]
}
