/** `tollgate demo` over Redis: two server processes keep one limit. */
import { RedisServer } from '../../servers/redis-server.js'
import { tollgate } from '../command.js'

test('two server processes keep one limit, and separate counters would not', async () => {
  const server = await RedisServer.start()
  try {
    const { code, stdout, stderr } = await tollgate(['demo', '--seconds', '2'], { env: { REDIS_URL: server.url } })
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toContain('2 server processes, one limit in Redis')
    const served = [...stdout.matchAll(/^ {2}server \d +(\d+) {2}\S/gm)].map(([, count]) => Number(count))
    expect(served).toHaveLength(6)
    expect(served.every((count) => count > 0)).toBe(true)
    const [, got, separate] =
      /flood got (\d+); a counter in each server would have let (\d+) through/.exec(stdout) ?? []
    const [, bound] = /no client got more than (\d+)/.exec(stdout) ?? []
    expect(Number(got)).toBeLessThanOrEqual(Number(bound))
    expect(Number(got)).toBeGreaterThan(30)
    // Each of two counters would have admitted about as much as the one in Redis.
    expect(Number(separate)).toBeGreaterThan(1.5 * Number(got))
  } finally {
    await server.stop()
  }
})
