/** Shared helpers for the tests of commands that read Redis. */
import type { RedisServer } from '../../servers/redis-server.js'
import { type CommandResult, type RunOptions, tollgate } from '../command.js'

/** Commands that change nothing. Any other command may write. */
const READING = [
  'auth',
  // Redis 6.2 does not list their subcommands separately.
  'client',
  'client|setinfo',
  'cluster',
  'cluster|slots',
  'cluster|info',
  'dbsize',
  'get',
  'hello',
  'hgetall',
  'info',
  'lrange',
  'ping',
  'scan',
  'select',
  'time',
  'zcard',
  'zcount',
  'zrange',
]

/** The further commands that the scripts of a peek run. */
const PEEKING = ['eval', 'evalsha', 'lindex', 'mget', 'zrangebyscore', 'zscore']

/**
 * The commands that a server has run, and those of them that may have written, without the commands
 * of this query.
 */
export interface Commands {
  readonly names: readonly string[]
  readonly changes: number
}

/** Clears the statistics of a server, and runs a function. */
export async function commandsOf(server: RedisServer, run: () => Promise<void>): Promise<Commands> {
  const changes = async () => Number(await server.info('rdb_changes_since_last_save'))
  const before = await changes()
  await server.command('CONFIG', 'RESETSTAT')
  await run()
  const stats = await server.command<string>('INFO', 'commandstats')
  const names = [...stats.matchAll(/^cmdstat_([^:]+):/gm)].map(([, name]) => name as string)
  return { names: names.filter((name) => !name.startsWith('config')), changes: (await changes()) - before }
}

/** Expects that a function only read, and ran no KEYS. */
export function expectReading({ names, changes }: Commands, peeks = false): void {
  const allowed = [...READING, ...(peeks ? PEEKING : [])]
  expect(names.filter((name) => !allowed.includes(name))).toEqual([])
  expect(changes).toBe(0)
}

/** Runs a command, and parses the JSON that it prints. */
export async function json<T>(words: readonly string[], options: RunOptions = {}): Promise<T & { code: number }> {
  const result = await tollgate([...words, '--format', 'json'], options)
  return { ...(JSON.parse(expectQuiet(result).stdout) as T), code: result.code as number }
}

/** Expects that a command printed nothing to stderr. */
export function expectQuiet(result: CommandResult): CommandResult {
  expect(result.stderr).toBe('')
  return result
}
