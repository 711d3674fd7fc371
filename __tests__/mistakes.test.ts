/** What users get wrong by nature: each is an error that names its fix, on at most two lines. */
import { mistakesOf } from '../scripts/mistakes/table.cjs'
import * as tollgate from '../ts/index.js'
import { rateLimit } from '../ts/middleware/express.js'

const { mistakes, close } = mistakesOf(tollgate, rateLimit)

afterAll(close)

test.each(mistakes.map(({ call, ...mistake }) => [call, mistake] as const))('%s', async (_, { run, hint, name }) => {
  const error: unknown = await (async () => run())().then(
    () => 'it did not fail',
    (error: unknown) => error,
  )
  expect(error).toBeInstanceOf(name === undefined ? tollgate.TollgateError : TypeError)
  const { message } = error as Error
  expect(message).toMatch(hint)
  const lines = message.split('\n')
  expect(lines.length).toBeLessThanOrEqual(2)
  expect(lines.filter((line) => line.length > 200)).toEqual([])
})

test('no mistake is listed twice', () => {
  const calls = mistakes.map(({ call }) => call)
  expect(new Set(calls).size).toBe(calls.length)
})
