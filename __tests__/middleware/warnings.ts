/** What a piece of work warns of, as codes and messages. */
export async function warningsOf(work: () => Promise<unknown>): Promise<{ code: string; message: string }[]> {
  const given: { code: string; message: string }[] = []
  // The process that Jest shows to tests hears no events of the real one.
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
