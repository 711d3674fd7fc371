import { isAscii } from 'node:buffer'
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { failedOutside } from '../../failure.js'

/** Whole lines of a log, as many as were read at once. */
export interface Block {
  /** A character for each byte (latin1): decoding UTF-8 is left to those few parts that need it. */
  readonly text: string
  /** Whether all of it is ASCII, so that nothing needs decoding. */
  readonly isAscii: boolean
  /** Bytes of the file, compressed as it may be, that have been read since the last block. */
  readonly bytes: number
}

const BLOCK_BYTES = 1 << 20

/** A line that is longer is cut into lines, which nobody can read then: so memory is bounded whatever the file is. */
const MOST_LINE_BYTES = 1 << 20

const NEWLINE = 10

/** What the name of a file must be for the standard input to be read. */
export const STDIN = '-'

/**
 * The lines of a file, in blocks. What is compressed by gzip is told by its first bytes, whatever its name is.
 *
 * @throws {CommandFailure} if it cannot be read.
 */
export async function* blocksOf(file: string, stdin: Readable): AsyncGenerator<Block> {
  let bytes = 0
  const counted = (chunk: Buffer): Buffer => {
    bytes += chunk.length
    return chunk
  }
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of readingErrors(file, unzipped(chunksOf(file, stdin), counted))) {
    const whole = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    const last = whole.lastIndexOf(NEWLINE)
    if (last < 0 && whole.length < MOST_LINE_BYTES) {
      rest = whole
      continue
    }
    const end = last < 0 ? whole.length : last + 1
    rest = whole.subarray(end)
    yield blockOf(whole.subarray(0, end), bytes)
    bytes = 0
  }
  if (rest.length > 0) {
    yield blockOf(rest, bytes)
  }
}

function blockOf(lines: Buffer, bytes: number): Block {
  return { text: lines.toString('latin1'), isAscii: isAscii(lines), bytes }
}

/** How many bytes the files have together; `undefined` if that is not known before they are read. */
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

function chunksOf(file: string, stdin: Readable): AsyncIterable<Buffer> {
  return file === STDIN ? stdin : createReadStream(file, { highWaterMark: BLOCK_BYTES })
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
  const gunzip = createGunzip({ chunkSize: BLOCK_BYTES })
  const fed = feed(all(), gunzip)
  yield* gunzip as AsyncIterable<Buffer>
  await fed
}

/** The first bytes, two at least if there are so many. */
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
  return failedOutside(`${file}: ${REASONS[code] ?? (code.startsWith('Z_') ? 'its compression is broken' : message)}`)
}
