// For programs with a short deadline: processes that start together are slow to connect.

/** Retries until the store answers. */
export async function ready(limiter) {
  for (;;) {
    try {
      return await limiter.ready()
    } catch (error) {
      if (!['STORE_TIMEOUT', 'STORE_UNAVAILABLE'].includes(error.code)) throw error
    }
  }
}
