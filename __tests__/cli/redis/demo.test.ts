/** `tollgate-cli demo` over Redis: two server processes keep one limit. */
import { RedisServer } from '../../servers/redis-server.js'
import { tollgate } from '../command.js'

test('two server processes keep one limit, and separate counters would not', async () => {
  const server = await RedisServer.start()
  try {
    const { code, stdout, stderr } = await tollgate(['demo', '--seconds', '4'], { env: { REDIS_URL: server.url } })
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toContain('2 server processes, one limit in Redis')
    const served = [...stdout.matchAll(/^ {2}server \d +(\d+) {2}\S/gm)].map(([, count]) => Number(count))
    expect(served).toHaveLength(6)
    expect(served.every((count) => count > 0)).toBe(true)
    const [, got, separate] = /flood got (\d+); separate counters would have let (\d+) through/.exec(stdout) ?? []
    const [, bound] = /no client got more than (\d+)/.exec(stdout) ?? []
    expect(Number(got)).toBeLessThanOrEqual(Number(bound))
    const [, sentAllowed, sentRefused] = /^flood .* allowed (\d+), refused (\d+)$/m.exec(stdout) ?? []
    expect(sentAllowed).toBe(got)
    // A busy machine may send less than the burst.
    expect(Number(got)).toBeGreaterThanOrEqual(Math.min(20, Number(got) + Number(sentRefused)))
    // Drawn below the servers of the flood.
    expect(stdout).toMatch(new RegExp(`^ {2}separate +${separate} {2}\\S+\n {17}0 s`, 'm'))
    // Each of two counters has the units of the one in Redis, so they let some of its refused requests through.
    expect(Number(separate) > Number(got)).toBe(Number(sentRefused) > 0)
  } finally {
    await server.stop()
  }
})
