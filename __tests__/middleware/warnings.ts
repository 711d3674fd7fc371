/** The warnings during a function, as codes and messages. */
export async function warningsOf(work: () => Promise<unknown>): Promise<{ code: string; message: string }[]> {
  const given: { code: string; message: string }[] = []
  // The process object that Jest gives to tests does not receive events of the real one.
  const spy = jest.spyOn(process, 'emitWarning').mockImplementation(((message: string, { code }: { code: string }) => {
    given.push({ code, message })
  }) as typeof process.emitWarning)
  try {
    await work()
  } finally {
    spy.mockRestore()
  }
  return given
}
