import { Redis } from 'ioredis'

/** The credentials of a command. Without a name the user is `default`. */
export interface Credentials {
  readonly username?: string
  readonly password?: string
}

/** The time limit of a command: some tests make servers slow. */
const TIMEOUT_MS = 30_000

/** Runs one command on a new connection. See `RedisServer.command`. */
export async function execute<T>(
  socketPath: string,
  credentials: Credentials,
  words: readonly (string | number)[],
): Promise<T> {
  const [command = '', ...rest] = words
  const client = new Redis({
    path: socketPath,
    ...credentials,
    lazyConnect: true,
    disableClientInfo: true,
    enableReadyCheck: false,
    commandTimeout: TIMEOUT_MS,
    // After a failed connection, its timer would keep the process alive for that time.
    disconnectTimeout: 50,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  })
  // The command reports the connection's error.
  let broken: Error | undefined
  client.on('error', (error) => {
    broken ??= error
  })
  try {
    await client.connect()
    return (await client.call(`${command}`, rest)) as T
  } catch (error) {
    throw broken ?? error
  } finally {
    client.disconnect()
  }
}

/** Passes the messages of a channel to a function, until the returned function is called. */
export async function subscribe(
  socketPath: string,
  credentials: Credentials,
  channel: string,
  onMessage: (message: string) => void,
): Promise<() => void> {
  const client = new Redis({ path: socketPath, ...credentials, disableClientInfo: true, enableReadyCheck: false })
  client.on('message', (_, message: string) => onMessage(message))
  await client.subscribe(channel)
  return () => client.disconnect()
}
