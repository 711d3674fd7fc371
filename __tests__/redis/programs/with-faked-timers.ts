/**
 * Fakes timers only while a function runs: the servers of these tests need real ones.
 *
 * @param real - The timers that stay real.
 */
export async function withFakedTimers<T>(run: () => Promise<T>, real: readonly 'setImmediate'[] = []): Promise<T> {
  jest.useFakeTimers({ doNotFake: [...real] })
  try {
    return await run()
  } finally {
    jest.useRealTimers()
  }
}
