/**
 * Requests over keep-alive connections, on raw sockets. node:http's client takes more CPU for a
 * request than an Express server does, and would determine the figures.
 */
import { once } from 'node:events'
import { connect } from 'node:net'

/**
 * Opens connections to a server. `ask` resolves to the status of a request. There must be a
 * connection for each request in flight.
 *
 * @param {number} port
 * @param {number} connections
 */
export async function connectionsTo(port, connections) {
  const all = await Promise.all(Array.from({ length: connections }, () => connectionTo(port)))
  const idle = [...all]
  return {
    async ask(path) {
      const connection = idle.pop()
      const status = await connection.ask(path)
      idle.push(connection)
      return status
    },
    close() {
      for (const connection of all) {
        connection.close()
      }
    },
  }
}

async function connectionTo(port) {
  const socket = connect({ host: '127.0.0.1', port, noDelay: true })
  socket.setEncoding('latin1')
  await once(socket, 'connect')
  let waiting
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk
    const status = statusOf(text)
    if (status === undefined) return
    text = ''
    waiting.resolve(status)
  })
  socket.on('error', (error) => waiting?.reject(error))
  socket.on('close', () => waiting?.reject(new Error('the server closed a connection')))
  return {
    ask: (path) =>
      new Promise((resolve, reject) => {
        waiting = { resolve, reject }
        socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`)
      }),
    close: () => socket.destroy(),
  }
}

/** The status of a complete response. Here every response has a content length. */
function statusOf(text) {
  const end = text.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const length = /^content-length: (\d+)/im.exec(text)?.[1]
  // "HTTP/1.1 200"
  return text.length < end + 4 + Number(length) ? undefined : Number(text.slice(9, 12))
}
