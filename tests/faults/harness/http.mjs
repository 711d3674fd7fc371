/** Calls of a limiter that is a middleware: requests to a server in the same process. */
import { Agent, get } from 'node:http'

/** The header with the key of a request, as a limiter by API key has it. */
export const KEY = 'x-api-key'

/** Why these packages cannot take part in two scenarios. */
export const ONE_PER_REQUEST = {
  cost: 'each request counts as one',
  hold: 'it limits rates, not what is held at once',
}

/** @returns {import('../contenders/all.mjs').Opened} */
export function requesting(port) {
  const agent = new Agent({ keepAlive: true })
  return {
    async take(key) {
      const status = await new Promise((resolve, reject) => {
        get({ port, host: '127.0.0.1', agent, headers: { [KEY]: key } }, (response) => {
          response
            .resume()
            .on('end', () => resolve(response.statusCode))
            .on('error', reject)
        }).on('error', reject)
      })
      if (status !== 200 && status !== 429) throw new Error(`status ${status}`)
      return { allowed: status === 200 }
    },
  }
}
