/** Requests over keep-alive connections, so many at a time. */
import { Agent, get } from 'node:http'

/**
 * The connections to a server; `ask` resolves to the status of a request's answer.
 *
 * @param {number} port
 * @param {number} connections
 */
export function connectionsTo(port, connections) {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const ask = (path) =>
    new Promise((resolve, reject) => {
      const request = get({ host: '127.0.0.1', port, path, agent }, (response) => {
        response.once('error', reject)
        response.once('end', () => resolve(response.statusCode))
        response.resume()
      })
      request.once('error', reject)
    })
  return { ask, close: () => agent.destroy() }
}
