/** Servers that run no scripts, or whose version lacks fixes of its Lua engine. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { scriptAdvisory } from '../../../ts/backends/redis/script-advisories.js'
import { gcra, RateLimiter, RedisStore, type StoreEvents } from '../../../ts/index.js'
import { rejectionOf } from '../../failure.js'
import { RedisServer } from '../../servers/redis-server.js'
import { until } from '../../servers/until.js'
import { PATIENT_MS, recovery } from '../help.js'

const POLICY = gcra({ limit: 1_000, period: '1h' })

test('a server without scripts is named when a limiter is ready, and by each call', async () => {
  const config = ['rename-command EVAL ""', 'rename-command EVALSHA ""']
  await using server = await RedisServer.start({ config })
  await using store = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
  const limiter = new RateLimiter(POLICY, { store, prefix: 'no-scripts' })
  for (const call of [limiter.ready(), limiter.take('key')]) {
    expect(await rejectionOf(call)).toMatchObject({
      code: 'STORE_ERROR',
      charged: false,
      message: expect.stringMatching(/the server runs no Lua scripts, which limiters need: .*unknown command/i),
    })
  }
})

test.each([
  ['6.2.19', '6.2.20'],
  ['7.2.0', '7.2.11'],
  ['7.4.5', '7.4.6'],
  ['8.0.3', '8.0.4'],
  ['8.1.3', '8.1.4'],
  ['8.2.1', '8.2.2'],
])('version %s lacks fixes, and %s has them', (old, fixed) => {
  expect(scriptAdvisory(old)).toContain(`use ${fixed} or later`)
  expect(scriptAdvisory(fixed)).toBeUndefined()
})

// Of 7.0 there is no fixed release, and distributions patch it; 8.4 began with the fixes.
test.each(['7.0.15', '8.4.0', '9.0.0', '', 'df-1.2', '7.1'])('version %p is not judged', (version) => {
  expect(scriptAdvisory(version)).toBeUndefined()
})

test('a store warns once of such a server, also when it connects again', async () => {
  await using server = await RedisServer.start()
  const proxy = createServer((client) => {
    const upstream = connect(server.port)
    client.pipe(upstream)
    upstream.on('data', (data) => {
      const reply = data.toString('latin1').replaceAll(/(\r\nversion\r\n)\$\d+\r\n[\d.]+\r\n/g, '$1$$5\r\n7.2.4\r\n')
      client.write(reply, 'latin1')
    })
    for (const socket of [client, upstream]) {
      socket.on('error', () => {}).on('close', () => [client, upstream].map((each) => each.destroy()))
    }
  })
  await once(proxy.listen(0, '127.0.0.1'), 'listening')
  try {
    const { port } = proxy.address() as AddressInfo
    await using store = new RedisStore({ host: '127.0.0.1', port, commandTimeout: PATIENT_MS })
    const warnings: StoreEvents['warning'][] = []
    store.on('warning', (warning) => warnings.push(warning))
    const limiter = new RateLimiter(POLICY, { store, prefix: 'old' })
    await recovery(limiter, 'key')
    await until('the warning', async () => warnings.length > 0)
    expect(warnings).toEqual([{ code: 'VULNERABLE_SERVER', message: scriptAdvisory('7.2.4') }])
    await server.command('CLIENT', 'KILL', 'TYPE', 'normal')
    await recovery(limiter, 'key')
    await limiter.ready()
    expect(warnings).toHaveLength(1)
  } finally {
    proxy.close()
  }
})
