// A user's Jest test in ECMAScript modules: every entry point of the installed package.
import { createRequire } from 'node:module'
import { gcra, RateLimiter, TollgateError } from 'tollgate'

const { exports: entries } = createRequire(import.meta.url)('tollgate/package.json')
const subpaths = Object.keys(entries).filter((subpath) => subpath !== './package.json')

test.each(subpaths)('%s is there', async (subpath) => {
  expect(Object.keys(await import(subpath.replace('.', 'tollgate')))).not.toEqual([])
})

test('Jest recognizes decisions as objects and errors as errors', async () => {
  const limiter = new RateLimiter(gcra({ limit: 1, period: '1m' }))
  expect(await limiter.take('user:42')).toMatchObject({ allowed: true, status: 'allowed-last', remaining: 0 })
  expect((await limiter.take('user:42')).policies).toEqual({ default: expect.any(Object) })
  await expect(limiter.take('')).rejects.toThrow(TollgateError)
  await expect(limiter.take('')).rejects.toBeInstanceOf(Error)
  expect(() => new RateLimiter(gcra({ limit: 0, period: '1m' }))).toThrow('limit')
})
