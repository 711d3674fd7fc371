import type { PermitSignal } from '../api/permit.js'
import { addAbortListener, removeAbortListener } from '../api/scheduled-waits.js'
import type { PlatformTimer, WaitingTime } from '../platform/waiting-time.js'
import type { UsageReader } from './usage.js'

/** The bytes that are read before the caller reads. A body that is not longer ends also if nobody reads it. */
const READ_AHEAD = 65_536

/** The time after which a longer body counts as ended if nobody reads it, in milliseconds. */
const UNREAD_MS = 60_000

interface BodyHolder {
  readonly time: WaitingTime
  /** Ends the body when it is aborted. */
  readonly signal: PermitSignal
  /** Reads what passes. */
  readonly usage: UsageReader | undefined
  /**
   * The body has ended: it was read to its end, cancelled (both successful), or has failed. The reader receives the end
   * when the returned promise resolves.
   */
  onEnd(isSuccess: boolean): Promise<unknown> | undefined
}

/**
 * Watches the body of a response. The caller gets the returned response. A value without a body, or with one that is
 * read already, has ended at once.
 */
export function holdBody(value: unknown, { time, signal, usage, onEnd }: BodyHolder): unknown {
  const parts = partsOf(value)
  if (parts === undefined) {
    void onEnd(true)
    return value
  }
  const { reader, headers, properties } = parts
  let stream: ReadableByteStreamController
  let unread: PlatformTimer | undefined
  let hasEnded = false
  const end = (isSuccess: boolean): Promise<unknown> | undefined => {
    time.clearTimeout(unread)
    if (hasEnded) {
      return undefined
    }
    hasEnded = true
    removeAbortListener(signal, onAbort)
    return onEnd(isSuccess)
  }
  const onAbort = () => {
    stream.error(signal.reason)
    reader.cancel(signal.reason).catch(() => {})
    void end(false)
  }
  const source: UnderlyingByteSource = {
    type: 'bytes',
    start: (controller) => {
      stream = controller
    },
    pull: async (controller) => {
      time.clearTimeout(unread)
      try {
        const chunk = await nextChunk(reader)
        if (chunk !== undefined) {
          usage?.add(chunk)
          if (usage?.isWhole === true) {
            await end(true)
          }
          controller.enqueue(chunk)
          if ((controller.desiredSize ?? 0) <= 0) {
            unread = time.setTimeout(() => void end(true), UNREAD_MS)
            unread.unref?.()
          }
          return
        }
      } catch (error) {
        void end(false)
        throw error
      }
      usage?.end()
      const ended = end(true)
      if (ended !== undefined) {
        await ended
      }
      controller.close()
      controller.byobRequest?.respond(0)
    },
    cancel: (reason) => {
      void end(true)
      return reader.cancel(reason)
    },
  }
  const body = new ReadableStream(source, { highWaterMark: READ_AHEAD })
  addAbortListener(signal, onAbort)
  return withProperties(properties, new Response(body, { headers }))
}

/** The parts of a response with a body. An object that stands for one, such as a proxy, may throw: it has none. */
function partsOf(value: unknown) {
  try {
    if (!(value instanceof Response) || value.body === null || value.body.locked) {
      return undefined
    }
    const { headers, status, statusText, ok, url, redirected, type } = value
    const properties = { status, statusText, ok, url, redirected, type }
    return { headers, properties, reader: value.body.getReader() }
  } catch {
    return undefined
  }
}

/** A copy of the next chunk with bytes; `undefined` at the end. A byte stream takes the memory of its chunks. */
async function nextChunk(reader: ReadableStreamDefaultReader<unknown>): Promise<Uint8Array<ArrayBuffer> | undefined> {
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    if (!ArrayBuffer.isView(read.value)) {
      throw new TypeError('a chunk of the body of a response is not a Uint8Array')
    }
    if (read.value.byteLength > 0) {
      return new Uint8Array(read.value as Uint8Array)
    }
  }
  return undefined
}

/** Gives a response and its clones the properties that a constructor cannot set. */
function withProperties(properties: object, copy: Response): Response {
  const clone = () => withProperties(properties, Response.prototype.clone.call(copy))
  for (const [name, value] of Object.entries({ ...properties, clone })) {
    Object.defineProperty(copy, name, { value, configurable: true })
  }
  return copy
}
