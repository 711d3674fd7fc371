import { boundedDelay, resetDelayOf, secondsOf } from './server-times.js'

const RESOURCE_EXHAUSTED = 8

/** The key of the metadata with a `google.rpc.Status`. Its details may have a `RetryInfo`. */
const STATUS_DETAILS = 'grpc-status-details-bin'

const RETRY_INFO = 'google.rpc.RetryInfo'

interface Metadata {
  /** A list in `@grpc/grpc-js`; one value in Connect, whose metadata are `Headers`. */
  get?(name: string): unknown
}

/** The members of gRPC errors: of `@grpc/grpc-js`, of `google-gax`, of Connect, and of Google's JSON APIs. */
interface GrpcError {
  readonly code?: unknown
  readonly status?: unknown
  readonly metadata?: Metadata
  readonly statusDetails?: unknown
  readonly errorDetails?: unknown
  readonly details?: unknown
  /** The body of a JSON API. */
  readonly error?: unknown
  /** As gaxios has it. */
  readonly response?: { readonly data?: { readonly error?: unknown } | null } | null
}

/** Whether an error is a refusal of a gRPC server. */
export function isExhausted(error: unknown): boolean {
  const { code, status, metadata, statusDetails, details } = (error ?? {}) as GrpcError
  if (code === 'RESOURCE_EXHAUSTED' || status === 'RESOURCE_EXHAUSTED') {
    return true
  }
  // Other errors have numbers as codes, too.
  return code === RESOURCE_EXHAUSTED && [metadata, statusDetails, details].some((member) => member !== undefined)
}

/**
 * The time that a server asks callers to wait, in a `RetryInfo` or in the pushback of gRPC's retries. An error whose
 * members cannot be read names none.
 */
export function retryInfoOf(error: unknown): number | undefined {
  try {
    return delayOfError(error)
  } catch {
    return undefined
  }
}

function delayOfError(error: unknown): number | undefined {
  const { metadata, statusDetails, errorDetails, details, error: body, response } = (error ?? {}) as GrpcError
  const [own, theirs] = [body, response?.data?.error].map((of) => (of as GrpcError | null | undefined)?.details)
  for (const list of [statusDetails, errorDetails, details, own, theirs]) {
    for (const detail of Array.isArray(list) ? list : []) {
      const delayMs = delayOfDetail((detail ?? {}) as ErrorDetail)
      if (delayMs !== undefined) {
        return delayMs
      }
    }
  }
  if (typeof metadata?.get !== 'function') {
    return undefined
  }
  const pushback = firstOf(metadata.get('grpc-retry-pushback-ms'))
  const status = firstOf(metadata.get(STATUS_DETAILS))
  const inMillis = typeof pushback === 'string' ? boundedDelay(secondsOf(pushback, 1)) : undefined
  return inMillis ?? (status instanceof Uint8Array ? delayInStatus(status) : undefined)
}

function firstOf(values: unknown): unknown {
  return Array.isArray(values) ? values[0] : values
}

/** A `RetryInfo`, or one that Connect has not decoded, with its bytes. */
interface ErrorDetail {
  readonly retryDelay?: unknown
  readonly type?: unknown
  readonly value?: unknown
}

function delayOfDetail({ retryDelay, type, value }: ErrorDetail): number | undefined {
  return type === RETRY_INFO && value instanceof Uint8Array ? delayInRetryInfo(value) : delayOf(retryDelay)
}

/** A duration of Protocol Buffers: `{ seconds, nanos }`, or its JSON form `'34.07s'`. */
function delayOf(duration: unknown): number | undefined {
  if (typeof duration === 'string') {
    return boundedDelay(resetDelayOf(duration, 0))
  }
  if (typeof duration !== 'object' || duration === null) {
    return undefined
  }
  const { seconds = 0, nanos = 0 } = duration as { readonly seconds?: unknown; readonly nanos?: unknown }
  // `seconds` may be a number, a text or an object that prints its number.
  const millis = Number(String(seconds)) * 1_000 + Number(nanos) / 1e6
  return Number.isFinite(millis) ? boundedDelay(millis) : undefined
}

/** The delay of the first `RetryInfo` in the bytes of a `google.rpc.Status`. */
function delayInStatus(status: Uint8Array): number | undefined {
  for (const detail of fieldsOf(status, 3)) {
    const [type] = fieldsOf(detail, 1)
    const [retryInfo] = fieldsOf(detail, 2)
    if (type !== undefined && retryInfo !== undefined && new TextDecoder().decode(type).endsWith(RETRY_INFO)) {
      return delayInRetryInfo(retryInfo)
    }
  }
  return undefined
}

function delayInRetryInfo(retryInfo: Uint8Array): number | undefined {
  const [duration = new Uint8Array()] = fieldsOf(retryInfo, 1)
  const [seconds = 0] = numbersOf(duration, 1)
  const [nanos = 0] = numbersOf(duration, 2)
  return delayOf({ seconds, nanos })
}

function fieldsOf(bytes: Uint8Array, field: number): Uint8Array[] {
  return valuesOf(bytes, field).filter((value) => typeof value !== 'number')
}

function numbersOf(bytes: Uint8Array, field: number): number[] {
  return valuesOf(bytes, field).filter((value) => typeof value === 'number')
}

/** The values of a field in a message of Protocol Buffers: numbers (wire type 0) and bytes (2). */
function valuesOf(bytes: Uint8Array, field: number): (number | Uint8Array)[] {
  const values: (number | Uint8Array)[] = []
  let at = 0
  const varint = () => {
    let [value, factor] = [0, 1]
    for (; at < bytes.length; factor *= 128) {
      const byte = bytes[at++] as number
      value += (byte & 127) * factor
      if (byte < 128) {
        break
      }
    }
    return value
  }
  while (at < bytes.length) {
    const tag = varint()
    const wireType = tag & 7
    if (wireType !== 0 && wireType !== 2) {
      // No other type occurs in these messages.
      break
    }
    let value: number | Uint8Array = varint()
    if (wireType === 2) {
      const length = value
      value = bytes.subarray(at, at + length)
      at += length
    }
    if (tag >>> 3 === field) {
      values.push(value)
    }
  }
  return values
}
