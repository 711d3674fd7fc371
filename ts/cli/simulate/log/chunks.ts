import { isAscii } from 'node:buffer'
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { environmentError } from '../../failure.js'

const CHUNK_BYTES = 1 << 20

/** Longer lines are cut, and the parts count as unreadable lines. This bounds the memory for any file. */
const MAX_LINE_BYTES = 1 << 20

const NEWLINE = 10

/** The file name that means the standard input. */
export const STDIN = '-'

/** Reads the lines of a file in chunks. gzip is detected by its first bytes, whatever the file's name. */
export async function* chunksOf(file: string, stdin: Readable) {
  let bytes = 0
  const counted = (chunk: Buffer): Buffer => {
    bytes += chunk.length
    return chunk
  }
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of readingErrors(file, unzipped(rawChunks(file, stdin), counted))) {
    const whole = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    const last = whole.lastIndexOf(NEWLINE)
    if (last < 0 && whole.length < MAX_LINE_BYTES) {
      rest = whole
      continue
    }
    const end = last < 0 ? whole.length : last + 1
    rest = whole.subarray(end)
    yield chunkOf(whole.subarray(0, end), bytes)
    bytes = 0
  }
  if (rest.length > 0) {
    yield chunkOf(rest, bytes)
  }
}

/** @param bytes - Bytes of the file, before decompression, that have been read since the previous chunk. */
function chunkOf(lines: Buffer, bytes: number) {
  // One character for each byte. Only the parts that need it are decoded as UTF-8: none, if the text is ASCII.
  return { text: lines.toString('latin1'), isAscii: isAscii(lines), bytes }
}

export async function bytesOf(files: readonly string[]): Promise<number | undefined> {
  let total = 0
  for (const file of files) {
    if (file === STDIN) {
      return undefined
    }
    const handle = await open(file).catch((error: unknown) => {
      throw unreadable(file, error)
    })
    const { size } = await handle.stat().finally(() => handle.close())
    total += size
  }
  return total
}

function rawChunks(file: string, stdin: Readable): AsyncIterable<Buffer> {
  return file === STDIN ? stdin : createReadStream(file, { highWaterMark: CHUNK_BYTES })
}

async function* unzipped(chunks: AsyncIterable<Buffer>, counted: (chunk: Buffer) => Buffer): AsyncGenerator<Buffer> {
  const iterator = chunks[Symbol.asyncIterator]()
  const head = await headOf(iterator)
  const all = async function* () {
    if (head.length > 0) {
      yield counted(head)
    }
    for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
      yield counted(next.value)
    }
  }
  if (head[0] !== 0x1f || head[1] !== 0x8b) {
    yield* all()
    return
  }
  const gunzip = createGunzip({ chunkSize: CHUNK_BYTES })
  const fed = feed(all(), gunzip)
  yield* gunzip as AsyncIterable<Buffer>
  await fed
}

/** The first bytes: at least two, unless the input is shorter. */
async function headOf(iterator: AsyncIterator<Buffer>): Promise<Buffer> {
  let head: Buffer = Buffer.alloc(0)
  while (head.length < 2) {
    const next = await iterator.next()
    if (next.done === true) {
      break
    }
    head = head.length === 0 ? next.value : Buffer.concat([head, next.value])
  }
  return head
}

async function feed(chunks: AsyncIterable<Buffer>, gunzip: ReturnType<typeof createGunzip>): Promise<void> {
  try {
    for await (const chunk of chunks) {
      if (!gunzip.write(chunk)) {
        await new Promise((resolve) => gunzip.once('drain', resolve))
      }
    }
    gunzip.end()
  } catch (error) {
    gunzip.destroy(error as Error)
  }
}

async function* readingErrors(file: string, chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  try {
    yield* chunks
  } catch (error) {
    throw unreadable(file, error)
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EACCES: 'it may not be read',
  EISDIR: 'it is a folder',
}

function unreadable(file: string, error: unknown) {
  const { code = '', message } = error as NodeJS.ErrnoException
  return environmentError(
    `${file}: ${REASONS[code] ?? (code.startsWith('Z_') ? 'its compression is broken' : message)}`,
  )
}
