/**
 * Common mistakes: each produces an error or a warning that names the fix, in at most two lines.
 */
import { type Mistake, mistakesOf } from '../../scripts/mistakes/table.cjs'
import * as tollgate from '../../ts/index.js'
import { rateLimit } from '../../ts/middleware/express.js'
import { warningsOf } from '../middleware/warnings.js'

const { mistakes, close } = mistakesOf(tollgate, rateLimit)

afterAll(close)

async function errorOf({ run, name }: Omit<Mistake, 'call'>): Promise<string> {
  const error: unknown = await (async () => run())().then(
    () => 'it did not fail',
    (error: unknown) => error,
  )
  expect(error).toBeInstanceOf(name === undefined ? tollgate.TollgateError : TypeError)
  return (error as Error).message
}

async function warningOf({ run }: Omit<Mistake, 'call'>): Promise<string> {
  const warnings = await warningsOf(async () => run())
  expect(warnings).toHaveLength(1)
  return warnings[0]?.message as string
}

test.each(mistakes.map(({ call, ...mistake }) => [call, mistake] as const))('%s', async (_, mistake) => {
  const message = await (mistake.isWarning ? warningOf : errorOf)(mistake)
  expect(message).toMatch(mistake.hint)
  const lines = message.split('\n')
  expect(lines.length).toBeLessThanOrEqual(2)
  expect(lines.filter((line) => line.length > 200)).toEqual([])
})

test('no mistake is listed twice', () => {
  const calls = mistakes.map(({ call }) => call)
  expect(new Set(calls).size).toBe(calls.length)
})
