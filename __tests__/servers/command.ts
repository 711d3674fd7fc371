import { Redis } from 'ioredis'

/** Who asks. Without a name it is the user called `default`. */
export interface Credentials {
  readonly username?: string
  readonly password?: string
}

/** How long a command may take: some tests let servers be slow. */
const TIMEOUT_MS = 30_000

/** Runs one command on a connection of its own; see `RedisServer.command`. */
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
    // Its timer would keep the process for as long after a connection that failed.
    disconnectTimeout: 50,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  })
  // An error of the connection is told by the command.
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

/** Tells of the messages of a channel, until the function that it resolves to is called. */
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
