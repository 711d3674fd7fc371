/**
 * Servers in separate processes: one end is in the server's process, the other in the benchmark's.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { end, failureOf, minded } from './children.mjs'

/**
 * Listens, and sends the port to the benchmark. Answers each message with this process's CPU so
 * far.
 *
 * @param {import('express').Express} app
 */
export function serve(app) {
  const server = app.listen(0, '127.0.0.1', () => process.send(server.address().port))
  // Connections stay open while the other servers have their turns.
  server.keepAliveTimeout = 0
  process.on('message', () => {
    const { user, system } = process.cpuUsage()
    process.send(user + system)
  })
  process.once('disconnect', () => process.exit())
}

/**
 * Starts a module that calls {@link serve}.
 *
 * @param {string} file In the same folder.
 * @param {string[]} args Its arguments. The first is the server's name.
 */
export async function startServer(file, args) {
  const child = minded(fork(fileURLToPath(new URL(file, import.meta.url)), args))
  const failure = failureOf(child, `the server of ${args[0]}`)
  failure.catch(() => {})
  const [port] = await Promise.race([once(child, 'message'), failure])
  return {
    port,
    async cpuMicros() {
      const reply = once(child, 'message')
      child.send('cpu')
      return (await Promise.race([reply, failure]))[0]
    },
    close: () => end(child),
  }
}
