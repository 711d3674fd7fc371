/** The programs of docs/serverless.md: on instances of a Lambda function, and on workerd. */
import { setTimeout as sleep } from 'node:timers/promises'
import { RedisServer } from '../../servers/redis-server.js'
import { Bridge } from '../../wasm/redis/stores.js'
import { eventOf, Instance } from './lambda.js'
import { codeOf, programFile } from './page-program.js'
import { EARLIEST, LATEST, serveWorker } from './workerd.js'

/** The limit of both programs, per hour. */
const LIMIT = 100

let redis: RedisServer

beforeAll(async () => {
  redis = await RedisServer.start()
})

afterAll(() => redis.stop())

/** Checks that as many were admitted as the limit allows since `startedAt`. */
function expectLaw(admitted: number, startedAt: number): void {
  expect(admitted).toBeGreaterThanOrEqual(LIMIT)
  expect(admitted).toBeLessThanOrEqual(LIMIT + Math.ceil(((performance.now() - startedAt) / 3_600_000) * LIMIT))
}

test('two instances of a Lambda function keep one limit, although they are frozen between invocations', async () => {
  await using program = programFile(codeOf('serverless.md', 'AWS Lambda'), redis.url)
  const instances = await Promise.all([Instance.start(program.file), Instance.start(program.file)])
  try {
    const startedAt = performance.now()
    const invokeAll = async (count: number) => {
      const each = instances.map(async (instance) => {
        const results = []
        for (let made = 0; made < count; made++) {
          results.push(await instance.invoke(eventOf('203.0.113.7')))
        }
        return results
      })
      return (await Promise.all(each)).flat()
    }
    const early = await invokeAll(30)
    // Their connections end, as by the idle timeout of a service, while they are frozen.
    await redis.command('CLIENT', 'KILL', 'TYPE', 'normal')
    await sleep(3_100)
    const late = await invokeAll(30)
    const statuses = [...early, ...late].map(({ statusCode }) => statusCode)
    expect(statuses.filter((status) => status !== 200 && status !== 429)).toEqual([])
    expectLaw(statuses.filter((status) => status === 200).length, startedAt)
    expect(late.at(-1)).toMatchObject({ statusCode: 429, headers: { 'Retry-After': expect.any(String) } })
    expect(await instances[0]?.invoke(eventOf('203.0.113.8'))).toMatchObject({ statusCode: 200, body: 'hello' })
  } finally {
    await Promise.all(instances.map((instance) => instance.stop()))
  }
})

test.each([EARLIEST, LATEST])('a Worker of $compatibilityDate keeps its limit over Upstash', async (compatibility) => {
  await redis.command('FLUSHALL')
  const bridge = await Bridge.start(redis.port)
  const code = codeOf('serverless.md', 'Cloudflare Workers with Upstash')
  const env = { UPSTASH_REDIS_REST_URL: bridge.url, UPSTASH_REDIS_REST_TOKEN: 'secret' }
  const worker = await serveWorker(code, env, compatibility)
  try {
    const startedAt = performance.now()
    const request = async (ip: string) => {
      const response = await fetch(worker.url, { headers: { 'cf-connecting-ip': ip } })
      await response.text()
      return response
    }
    const responses: Response[] = []
    while (responses.length < LIMIT + 20) {
      responses.push(...(await Promise.all(Array.from({ length: 8 }, () => request('203.0.113.7')))))
    }
    const statuses = responses.map(({ status }) => status)
    expect(statuses.filter((status) => status !== 200 && status !== 429)).toEqual([])
    expectLaw(statuses.filter((status) => status === 200).length, startedAt)
    expect(responses.find(({ status }) => status === 429)?.headers.get('retry-after')).toMatch(/^\d+$/)
    expect((await request('203.0.113.8')).status).toBe(200)
  } finally {
    await worker.stop()
    await bridge.close()
  }
})
