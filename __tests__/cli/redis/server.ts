/** What the tests of commands that look into Redis share. */
import type { RedisServer } from '../../servers/redis-server.js'
import { type Surroundings, type Told, tollgate } from '../command.js'

/** Commands that change nothing. Whatever else a command runs, it may write. */
const READING = [
  'auth',
  // Redis 6.2 does not tell their subcommands apart.
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

/** What the scripts of a peek run, besides. */
const PEEKING = ['eval', 'evalsha', 'lindex', 'mget', 'zrangebyscore', 'zscore']

/** The commands that a server has run, and which of them may have written; without those that asked for this. */
export interface Commands {
  readonly names: readonly string[]
  readonly changes: number
}

/** Forgets what a server has run, and runs something. */
export async function commandsOf(server: RedisServer, run: () => Promise<void>): Promise<Commands> {
  const changes = async () => Number(await server.info('rdb_changes_since_last_save'))
  const before = await changes()
  await server.command('CONFIG', 'RESETSTAT')
  await run()
  const stats = await server.command<string>('INFO', 'commandstats')
  const names = [...stats.matchAll(/^cmdstat_([^:]+):/gm)].map(([, name]) => name as string)
  return { names: names.filter((name) => !name.startsWith('config')), changes: (await changes()) - before }
}

/** Expects that something only read, and asked for no KEYS. */
export function expectReading({ names, changes }: Commands, peeks = false): void {
  const allowed = [...READING, ...(peeks ? PEEKING : [])]
  expect(names.filter((name) => !allowed.includes(name))).toEqual([])
  expect(changes).toBe(0)
}

/** Runs a command, and reads the JSON that it prints. */
export async function json<T>(
  words: readonly string[],
  surroundings: Surroundings = {},
): Promise<T & { code: number }> {
  const told = await tollgate([...words, '--format', 'json'], surroundings)
  return { ...(JSON.parse(expectQuiet(told).stdout) as T), code: told.code as number }
}

/** Expects that a command has not complained. */
export function expectQuiet(told: Told): Told {
  expect(told.stderr).toBe('')
  return told
}
