import type { AbortSignalLike } from '../api/wait.js'
import { invalid } from '../input/options.js'
import { isIdempotentRequest } from './retry.js'

interface RequestParts {
  readonly url?: unknown
  readonly method?: unknown
  readonly headers?: unknown
  readonly body?: unknown
  readonly signal?: AbortSignalLike | null
  clone?(): unknown
}

export function fetchCallOf(input: unknown, init: unknown, own: FetchSender | undefined) {
  if (init !== undefined && (typeof init !== 'object' || init === null)) {
    throw invalid('INVALID_OPTION', 'init', 'must be the options of fetch', init)
  }
  const request = (typeof input === 'object' && input !== null && 'url' in input ? input : {}) as RequestParts
  const options = (init ?? {}) as RequestParts
  const hasBody = options.body === undefined && request.body !== undefined && request.body !== null
  const send = own ?? (globalThis as unknown as { readonly fetch: FetchSender }).fetch
  const headers = new globalThis.Headers(
    (options.headers ?? request.headers) as ConstructorParameters<typeof Headers>[0],
  )
  return {
    host: hostOf(request.url ?? input),
    // As for the platform's function: `null` drops the signal of the request.
    signal: options.signal === null ? undefined : (options.signal ?? request.signal ?? undefined),
    isIdempotent: isIdempotentRequest(
      String(options.method ?? request.method ?? 'GET'),
      headers.has('idempotency-key'),
    ),
    // A stream can be read only once.
    isRepeatable: !isStream(options.body),
    // The body of a request can be read only once, so each attempt reads a copy.
    send: async (signal: AbortSignalLike) => send(hasBody ? request.clone?.() : input, { ...options, signal }),
  }
}

type FetchSender = (input: unknown, init: unknown) => Promise<unknown>

function hostOf(url: unknown): string | undefined {
  try {
    return new URL(String(url)).host || undefined
  } catch {
    return undefined
  }
}

function isStream(body: unknown): boolean {
  return typeof body === 'object' && body !== null && ('getReader' in body || Symbol.asyncIterator in body)
}
