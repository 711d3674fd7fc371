import { TollgateError } from '../ts/index.js'

/** A value as users without TypeScript can pass it. */
export const anything = (value: unknown) => value as never

/** The error that a function must throw. */
export function failureOf(run: () => unknown): TollgateError {
  try {
    run()
  } catch (error) {
    return checked(error)
  }
  throw new Error('it did not fail')
}

/** The error with which a promise must reject. */
export async function rejectionOf(call: Promise<unknown>): Promise<TollgateError> {
  const [result] = await Promise.allSettled([call])
  if (result.status === 'fulfilled') {
    throw new Error('it did not fail')
  }
  return checked(result.reason)
}

function checked(error: unknown): TollgateError {
  expect(error).toBeInstanceOf(TollgateError)
  return error as TollgateError
}
