import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { RedisServer } from '../servers/redis-server.js'

/** Polls a server until it has a number of keys, and then wakes the thread that waits. */
const WATCHER = `
  const { parentPort, workerData } = require('node:worker_threads')
  const { Redis } = require(workerData.client)
  const client = new Redis(workerData.path, { disableClientInfo: true, enableReadyCheck: false })
  client.ping().then(() => {
    parentPort.postMessage('ready')
    const timer = setInterval(async () => {
      if ((await client.dbsize()) >= workerData.keys) {
        clearInterval(timer)
        Atomics.store(workerData.signal, 0, 1)
        Atomics.notify(workerData.signal, 0)
      }
    }, 5)
  })`

/**
 * Prepares to block the event loop until a server has a number of keys. When the returned function is called, it
 * blocks for at least a time in milliseconds, and until Redis has answered the calls that made these keys.
 */
export async function loopBlocker(server: RedisServer, keys: number): Promise<(ms: number) => Promise<void>> {
  const signal = new Int32Array(new SharedArrayBuffer(4))
  const workerData = { client: require.resolve('ioredis'), path: server.socketPath, keys, signal }
  const worker = new Worker(WATCHER, { eval: true, workerData })
  await once(worker, 'message')
  return async (ms) => {
    const end = performance.now() + ms
    const isAnswered = Atomics.wait(signal, 0, 0, 30_000) !== 'timed-out'
    while (performance.now() < end) {}
    await worker.terminate()
    expect(isAnswered).toBe(true)
  }
}
