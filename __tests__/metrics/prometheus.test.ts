/** The example for Prometheus, run as a process against the built package. */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { parser } from '@prometheus-io/lezer-promql'
import { RedisServer } from '../servers/redis-server.js'
import { until } from '../servers/until.js'

const ROOT = join(__dirname, '..', '..')
const EXAMPLE = join(ROOT, 'examples', 'prometheus')

interface Example {
  readonly url: string
  readonly metricsUrl: string
  end(): Promise<void>
}

async function start(env: NodeJS.ProcessEnv = {}): Promise<Example> {
  const child: ChildProcess = spawn(process.execPath, [join(EXAMPLE, 'server.mjs')], {
    cwd: ROOT,
    env: { ...process.env, PORT: '0', METRICS_PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const lines = createInterface(child.stdout as NodeJS.ReadableStream)[Symbol.asyncIterator]()
  const [url, metricsUrl] = [(await lines.next()).value, (await lines.next()).value]
  const end = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
    }
  }
  return { url, metricsUrl, end }
}

/** A sample of a scrape. */
interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

async function scrape({ metricsUrl }: Example): Promise<readonly Sample[]> {
  const response = await fetch(metricsUrl)
  expect(response.headers.get('content-type')).toContain('text/plain')
  const lines = (await response.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return lines.map((line) => {
    const [, name, labels, value] = /^(\w+)\{(.*)\} (\S+)$/.exec(line) ?? []
    const pairs = [...(labels ?? '').matchAll(/(\w+)="([^"]*)"/g)].map(([, label, text]) => [label, text])
    return { name: name ?? line, labels: Object.fromEntries(pairs), value: Number(value) }
  })
}

/** The sum of a metric's samples with these labels. */
function sum(samples: readonly Sample[], name: string, wanted: Record<string, string> = {}): number {
  const has = ({ labels }: Sample) => Object.entries(wanted).every(([label, text]) => labels[label] === text)
  return samples.filter((sample) => sample.name === name && has(sample)).reduce((total, { value }) => total + value, 0)
}

const DECISIONS = 'tollgate_decisions_total'

/** Sends requests of a client, and returns the statuses and the refusing policies. */
async function send({ url }: Example, client: string, times: number): Promise<string[]> {
  const answers: string[] = []
  for (let time = 0; time < times; time++) {
    const response = await fetch(url, { headers: { 'x-client': client } })
    const { policy, error } = (await response.json()) as { policy?: string; error?: string }
    answers.push([response.status, policy ?? (response.status === 200 ? undefined : error)].filter(Boolean).join(' '))
  }
  return answers
}

/** Sends requests that each policy refuses in part, and an invalid request. */
async function sendAll(example: Example): Promise<Readonly<Record<string, number>>> {
  const answers = [
    ...(await send(example, 'ann', 7)),
    ...(await send(example, 'bob', 5)),
    ...(await send(example, 'cleo', 5)),
    ...(await send(example, 'dan', 5)),
    ...(await send(example, 'eve', 3)),
    ...(await send(example, 'f'.repeat(1_025), 2)),
  ]
  const counts: Record<string, number> = {}
  for (const answer of answers) counts[answer] = (counts[answer] ?? 0) + 1
  return counts
}

const SENT = { '200': 20, '429 client': 2, '429 everyone': 3, '400 INVALID_KEY': 2 }

/** Expects the metrics of the requests that were sent. */
function checkSent(samples: readonly Sample[]): void {
  const store = { tollgate_limiter: 'api', tollgate_source: 'store' }
  const refused = { ...store, tollgate_status: 'refused' }
  expect(sum(samples, DECISIONS, { ...store, tollgate_status: 'allowed' })).toBe(16)
  // The last unit of four clients.
  expect(sum(samples, DECISIONS, { ...store, tollgate_status: 'allowed-last' })).toBe(4)
  expect(sum(samples, DECISIONS, { ...refused, tollgate_policy: 'client' })).toBe(2)
  expect(sum(samples, DECISIONS, { ...refused, tollgate_policy: 'everyone' })).toBe(3)
  expect(sum(samples, DECISIONS, store)).toBe(25)
  expect(sum(samples, 'tollgate_errors_total', { error_type: 'INVALID_KEY' })).toBe(2)
  expect(sum(samples, 'tollgate_decision_duration_count', store)).toBe(25)
  expect(sum(samples, 'tollgate_decision_duration_bucket', { ...store, le: '+Inf' })).toBe(25)
  expect(sum(samples, 'tollgate_decision_duration_sum', store)).toBeGreaterThan(0)
}

test('its counters equal the requests sent', async () => {
  const example = await start()
  try {
    expect(await sendAll(example)).toEqual(SENT)
    const samples = await scrape(example)
    checkSent(samples)
    expect(sum(samples, DECISIONS)).toBe(25)
    expect(sum(samples, 'tollgate_errors_total')).toBe(2)
    expect(JSON.stringify(samples)).not.toMatch(/ann|bob|fff|127\.0\.0\.1/)
  } finally {
    await example.end()
  }
})

test('over Redis, too, an outage is visible; the dashboard queries only existing metrics, and all of them', async () => {
  await using server = await RedisServer.start()
  const example = await start({ REDIS_URL: server.url })
  try {
    expect(await sendAll(example)).toEqual(SENT)
    const before = await scrape(example)
    checkSent(before)
    expect(sum(before, 'tollgate_store_up', { tollgate_store: 'main' })).toBe(1)
    expect(sum(before, 'tollgate_store_outages_total')).toBe(0)
    await server.kill()
    await until('the store is down', async () => sum(await scrape(example), 'tollgate_store_up') === 0)
    // Half of what a client has.
    expect(await send(example, 'gus', 3)).toEqual(['200', '200', '429 client'])
    const samples = await scrape(example)
    checkSent(samples)
    expect(sum(samples, DECISIONS, { tollgate_source: 'fallback' })).toBe(3)
    expect(sum(samples, 'tollgate_store_outages_total')).toBe(1)
    checkDashboard(samples)
  } finally {
    await example.end()
  }
})

/** The names in a PromQL query: metrics, and the labels that it selects and sums by. */
function namesIn(query: string): { metrics: string[]; labels: string[] } {
  const metrics: string[] = []
  const labels: string[] = []
  parser.parse(query).iterate({
    enter({ type, from, to }) {
      const text = query.slice(from, to)
      if (type.isError) throw new Error(`no PromQL near ${from}: ${query}`)
      if (type.name === 'Identifier') metrics.push(text)
      if (type.name === 'LabelName') labels.push(text)
    },
  })
  return { metrics, labels }
}

/** Its queries as Grafana sends them, with variables replaced. */
function queriesOfDashboard(): string[] {
  const { panels, templating } = JSON.parse(readFileSync(join(EXAMPLE, 'dashboard.json'), 'utf8'))
  const values: Record<string, string> = { __rate_interval: '1m', __range: '1h', limiter: 'api' }
  const queries = panels.flatMap(({ targets }: { targets: { expr: string }[] }) => targets.map(({ expr }) => expr))
  for (const { type, query } of templating.list) {
    if (type === 'query') {
      const [, metric, label] = /^label_values\((\w+), (\w+)\)$/.exec(query.query) ?? []
      queries.push(`count by (${label}) (${metric})`)
    }
  }
  return queries.map((query: string) => query.replace(/\$(\w+)/g, (_, name) => values[name] ?? `no ${name}`))
}

function checkDashboard(samples: readonly Sample[]): void {
  const queries = queriesOfDashboard()
  const queried = new Set<string>()
  for (const query of queries) {
    const { metrics, labels } = namesIn(query)
    expect(metrics).not.toEqual([])
    for (const metric of metrics) {
      const own = samples.filter(({ name }) => name === metric)
      expect({ metric, isThere: own.length > 0 }).toEqual({ metric, isThere: true })
      const known = new Set(own.flatMap((sample) => Object.keys(sample.labels)))
      expect(labels.filter((label) => !known.has(label))).toEqual([])
      queried.add(metric)
    }
  }
  const ours = new Set(samples.map(({ name }) => name).filter((name) => /^tollgate_(?!.*_(count|sum)$)/.test(name)))
  expect([...ours].filter((name) => !queried.has(name))).toEqual([])
}

test('a program that does not import the metrics loads neither them nor OpenTelemetry', async () => {
  const loads = async (...names: string[]) => {
    const script = `${names.map((name) => `require('${name}')`).join(';')};console.log(Object.keys(require.cache).join('\\n'))`
    const { stdout } = await promisify(execFile)(process.execPath, ['--eval', script], { cwd: ROOT })
    return stdout.split('\n').filter((file) => /opentelemetry|dist.metrics/.test(file))
  }
  expect(await loads('tollgate')).toEqual([])
  // The same check finds them where they are loaded.
  expect(await loads('tollgate', 'tollgate/metrics')).not.toEqual([])
})
