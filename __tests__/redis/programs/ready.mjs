// For programs whose deadline is short: processes that begin at once are slow to connect.

/** Asks until the store answers. */
export async function ready(limiter) {
  for (;;) {
    try {
      return await limiter.ready()
    } catch (error) {
      if (!['STORE_TIMEOUT', 'STORE_UNAVAILABLE'].includes(error.code)) throw error
    }
  }
}
