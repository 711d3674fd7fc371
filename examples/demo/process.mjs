// With REDIS_URL the demo runs its app in separate processes, which share only Redis. This file is
// both ends: as a child process it is the server; imported, it starts one.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { startServer } from './server.mjs'

const SELF = fileURLToPath(import.meta.url)

/**
 * Starts a server in its own process.
 *
 * @param redis - `{ store, prefix }`: the URL of Redis, and the prefix of this run's keys.
 * @returns Its URL, and a function that stops it.
 */
export async function startProcess(redis) {
  const child = fork(SELF, [redis.store, redis.prefix])
  const ready = once(child, 'message').then(([message]) => message)
  const failed = once(child, 'exit').then(([code]) => {
    throw new Error(`a server process ended with code ${code}`)
  })
  const { url } = await Promise.race([ready, failed])
  failed.catch(() => {})
  return {
    url,
    async close() {
      const exited = once(child, 'exit')
      child.disconnect()
      await exited
    },
  }
}

if (process.argv[1] === SELF) {
  const [, , store, prefix] = process.argv
  const server = await startServer({ store, prefix })
  // The parent ends the run. Ctrl-C reaches all processes of a terminal, so ignore it here.
  process.on('SIGINT', () => {})
  process.once('disconnect', () => server.close())
  process.send({ url: server.url })
}
