import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { environmentError } from '../failure.js'
import { type DemoRedis, type DemoServer, startServer } from './server.js'

/** The hidden command that is a server process. */
export const SERVER_COMMAND = 'demo-server'

/** Starts a server in its own process. The URL of Redis may have a password, so it is no argument. */
export async function startProcess({ store, prefix }: DemoRedis): Promise<DemoServer> {
  // In dist/cli/, where the command line is bundled.
  const child = fork(join(__dirname, 'main.js'), [SERVER_COMMAND, prefix], {
    env: { ...process.env, REDIS_URL: store },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const exited = once(child, 'exit')
  const ready = once(child, 'message').then(([message]) => (message as { readonly url: string }).url)
  const failed = exited.then(() => {
    throw environmentError('a server process of the demo ended before it was ready')
  })
  const url = await Promise.race([ready, failed])
  failed.catch(() => {})
  return {
    url,
    async close() {
      child.disconnect()
      await exited
    },
  }
}

/** The work of a server process: it runs until its parent disconnects. */
export async function runServerProcess(shared: DemoRedis): Promise<void> {
  const server = await startServer(shared)
  // The parent ends the run. Ctrl-C reaches all processes of a terminal, so ignore it here.
  process.on('SIGINT', () => {})
  process.send?.({ url: server.url })
  await once(process, 'disconnect')
  await server.close()
}
