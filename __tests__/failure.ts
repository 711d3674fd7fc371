import { TollgateError } from '../ts/index.js'

/** What users without TypeScript can pass. */
export const anything = (value: unknown) => value as never

/** The error of what must throw. */
export function failureOf(run: () => unknown): TollgateError {
  try {
    run()
  } catch (error) {
    return checked(error)
  }
  throw new Error('it did not fail')
}

/** The error of what must reject. */
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
