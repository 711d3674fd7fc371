/** The metrics of an `OutgoingClient`. */
import { OutgoingClient } from '../../ts/client/index.js'
import { concurrency, gcra, RateLimiter } from '../../ts/index.js'
import { instrumentClient } from '../../ts/metrics/index.js'
import { anything, failureOf } from '../failure.js'
import { until } from '../servers/until.js'
import { Collector } from './collect.js'

/** The series of each metric. */
async function seriesOf(collector: Collector) {
  const all = await collector.collect()
  return Object.fromEntries(
    Object.entries(all).map(([name, { series }]) => [name.replace('tollgate.client.', ''), series]),
  )
}

test('attempts, retries, blocks and durations', async () => {
  const limiter = new RateLimiter(gcra({ limit: 1_000, period: '1s' }))
  const api = new OutgoingClient({ limiter, key: 'k' })
  const collector = new Collector()
  instrumentClient(api, { name: 'pay', meter: collector.meter })
  const refused = new Response(null, { status: 429, headers: { 'retry-after-ms': '20' } })
  const answers = [refused, new Response('yes')]
  await api.schedule(async () => answers.shift())
  await api.schedule(() => Promise.reject(new Error('no'))).catch(() => {})
  await api.schedule(() => {}, { cost: 2_000 }).catch(() => {})
  expect(await seriesOf(collector)).toEqual({
    attempts: {
      'client=pay success=false http.response.status_code=429': 1,
      'client=pay success=true http.response.status_code=200': 1,
      'client=pay success=false': 1,
    },
    retries: { 'client=pay': 1 },
    blocks: { 'client=pay': 1 },
    given_up: { 'client=pay': 1 },
    'wait.duration': { 'client=pay': 3 },
    'attempt.duration': { 'client=pay': 3 },
    queued: { 'client=pay': 0 },
    running: { 'client=pay': 0 },
  })
})

test('waiting and running calls, until the client is closed', async () => {
  const api = new OutgoingClient({ limiter: new RateLimiter(concurrency({ limit: 1 })), key: 'k' })
  const collector = new Collector()
  const end = instrumentClient(api, { name: 'pay', meter: collector.meter })
  let finish: (() => void) | undefined
  const calls = [api.schedule(() => new Promise<void>((resolve) => (finish = resolve))), api.schedule(() => {})]
  await until('one waits', async () => {
    const { queued, running } = (await seriesOf(collector)) as Record<string, Record<string, number>>
    return queued?.['client=pay'] === 1 && running?.['client=pay'] === 1
  })
  finish?.()
  await Promise.all(calls)
  await api.close()
  expect(await seriesOf(collector)).toMatchObject({ queued: { 'client=pay': 0 }, running: { 'client=pay': 0 } })
  end()
})

test('bad input', () => {
  expect(failureOf(() => instrumentClient(anything({}), { name: 'pay' })).message).toContain(
    'client must be an OutgoingClient',
  )
})
