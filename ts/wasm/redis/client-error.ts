/**
 * A client's error: the message that may be the server's, without the command, and the code of a
 * failed system call. `src/wasm/redis_flush.rs` decides by them whether the script has run.
 */
export function clientErrorOf(error: unknown): { readonly message: string; readonly systemCode: string } {
  const { message, code, cause } = (typeof error === 'object' && error !== null ? error : {}) as ErrorLike
  const systemCode = [code, cause?.code].find((known) => typeof known === 'string')
  return {
    // @upstash/redis appends the command, which has the keys.
    message: (typeof message === 'string' ? message : '').split(', command was: ')[0] as string,
    systemCode: (systemCode as string | undefined) ?? '',
  }
}

interface ErrorLike {
  readonly message?: unknown
  readonly code?: unknown
  readonly cause?: { readonly code?: unknown }
}
