/** The part of the global `navigator` that is used. */
interface Platform {
  readonly navigator?: { readonly userAgent?: string }
}

/**
 * Whether sockets and timers belong to the request that made them, and end with it, as on workerd. Then no request may
 * wait for the work of another one, which may never be done.
 */
export const HAS_REQUEST_IO = (globalThis as Platform).navigator?.userAgent === 'Cloudflare-Workers'
