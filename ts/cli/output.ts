import { rename, rm, writeFile } from 'node:fs/promises'
import { environmentError } from './failure.js'
import type { Terminal } from './terminal.js'

/**
 * Prints a result or writes it to a file. The file is replaced atomically: if writing fails, it
 * stays as it was.
 */
export async function writeResult(text: string, file: string | undefined, { stdout }: Terminal): Promise<void> {
  if (file === undefined) {
    stdout.write(text)
    return
  }
  const unfinished = `${file}.${process.pid}.tmp`
  try {
    await writeFile(unfinished, text)
    await rename(unfinished, file)
  } catch (error) {
    await rm(unfinished, { force: true }).catch(() => {})
    throw environmentError(`${file} cannot be written: ${(error as Error).message}`)
  }
}
