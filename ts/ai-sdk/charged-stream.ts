import { type ModelHold, metadataOf } from './model-hold.js'
import type { ModelCharge } from './options.js'

/** A part of a stream of versions 3 and 4 of the SDK's models. */
interface StreamPart {
  readonly type?: unknown
  readonly [name: string]: unknown
}

/** The same stream, which settles the reservation of its call before its part `finish`, or when it ends otherwise. */
export function chargedStream(stream: ReadableStream<StreamPart>, hold: ModelHold): ReadableStream<StreamPart> {
  const reader = stream.getReader()
  /** The error of a part. Providers send `finish` after it, without any usage. */
  let failure: { readonly error: unknown } | undefined
  const read = async (part: StreamPart): Promise<StreamPart> => {
    hold.output.add(part)
    if (part.type === 'error') {
      failure = { error: part['error'] }
    }
    return part.type === 'finish' ? withCharge(part, await finish(part['usage'])) : part
  }
  const finish = (usage: unknown) =>
    failure === undefined || hold.reports(usage) ? hold.finish(usage) : hold.fail(failure.error)
  // Until the first read.
  hold.setIdle(true)
  return new ReadableStream<StreamPart>(
    {
      async pull(controller) {
        hold.setIdle(false)
        try {
          const { done, value } = await reader.read()
          if (done) {
            await hold.fail(failure?.error)
            controller.close()
          } else {
            controller.enqueue(await read(value))
          }
        } catch (error) {
          await hold.fail(error)
          controller.error(error)
        }
        hold.setIdle(true)
      },
      async cancel(reason) {
        await hold.abort()
        await reader.cancel(reason)
      },
    },
    { highWaterMark: 0 },
  )
}

function withCharge(part: StreamPart, charge: ModelCharge): StreamPart {
  const metadata = part['providerMetadata'] as object | undefined
  return { ...part, providerMetadata: { ...metadata, tollgate: metadataOf(charge) } }
}
