// A user's Jest test in CommonJS: every entry point of the installed package.
const { exports: entries } = require('tollgate/package.json')
const { gcra, RateLimiter, TollgateError } = require('tollgate')

const subpaths = Object.keys(entries).filter((subpath) => subpath !== './package.json')

test.each(subpaths)('%s is there', (subpath) => {
  expect(Object.keys(require(subpath.replace('.', 'tollgate')))).not.toEqual([])
})

test('Jest recognizes decisions as objects and errors as errors', async () => {
  const limiter = new RateLimiter(gcra({ limit: 1, period: '1m' }))
  expect(await limiter.take('user:42')).toMatchObject({ allowed: true, status: 'allowed-last', remaining: 0 })
  expect((await limiter.take('user:42')).policies).toEqual({ default: expect.any(Object) })
  await expect(limiter.take('')).rejects.toThrow(TollgateError)
  await expect(limiter.take('')).rejects.toBeInstanceOf(Error)
  expect(() => new RateLimiter(gcra({ limit: 0, period: '1m' }))).toThrow('limit')
})
