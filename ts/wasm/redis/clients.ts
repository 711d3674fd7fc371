import { TollgateError } from '../../api/error.js'
import { invalid } from '../../input/options.js'

/**
 * Runs a command, such as `['EVALSHA', …]`, and resolves with Redis's reply. Commands must reach
 * Redis in call order, as over one connection. Otherwise calls on a key are decided in another
 * order. A command that may have run must not be sent again, because its units would be charged
 * twice.
 */
export type RunCommand = (command: string[]) => Promise<unknown>

/** An `ioredis` client, made with `autoResendUnfulfilledCommands: false`. */
export interface IoredisClient {
  /** Runs a command. */
  call(command: string, ...args: string[]): Promise<unknown>
}

/** A client of node-redis (`redis`, `@redis/client`). */
export interface NodeRedisClient {
  /** Runs a command, given as its name and arguments. */
  sendCommand(command: string[]): Promise<unknown>
}

/**
 * A client like that of `@upstash/redis`, made with `retry: { retries: 0 }`. Its requests may
 * overtake each other, so calls on a key wait until earlier calls on that key have been answered.
 */
export interface ScriptClient {
  /** Runs a script. */
  eval(script: string, keys: string[], args: string[]): Promise<unknown>
  /** Runs a script that the server has cached, by its digest. */
  evalsha(digest: string, keys: string[], args: string[]): Promise<unknown>
}

/**
 * A client that can run scripts. All keys and arguments are text, so a {@link RunCommand} need not
 * support binary data.
 */
export type RedisClient = RunCommand | IoredisClient | NodeRedisClient | ScriptClient

/** Runs scripts through a client. */
export interface ScriptRunner {
  /** Whether commands reach the server in call order, as over one connection. */
  readonly keepsOrder: boolean
  evalsha(digest: string, keys: string[], args: string[]): Promise<unknown>
  eval(source: string, keys: string[], args: string[]): Promise<unknown>
}

/** The properties of clients that are checked. */
interface ClientProperties {
  readonly call?: unknown
  readonly sendCommand?: unknown
  readonly eval?: unknown
  readonly evalsha?: unknown
  /** Of ioredis. */
  readonly isCluster?: unknown
  readonly options?: { readonly autoResendUnfulfilledCommands?: unknown }
  /** Of clusters of node-redis. */
  readonly masters?: unknown
  /** Of `@upstash/redis`. */
  readonly client?: { readonly retry?: { readonly attempts?: unknown } }
}

const RULE = 'must be an ioredis, a node-redis or an @upstash/redis client, or a function that runs a command'

/**
 * The script runner for a client.
 *
 * @throws {TollgateError} `INVALID_OPTION` for a value that is not a client, for a client of a
 * cluster, and for a client that is known to resend commands with an unknown outcome: they would be
 * charged twice.
 */
export function scriptRunnerOf(client: unknown): ScriptRunner {
  if (typeof client === 'function') {
    return commandRunner((command) => (client as RunCommand)(command))
  }
  if (typeof client !== 'object' || client === null) {
    throw invalid('INVALID_OPTION', 'client', RULE, client)
  }
  const properties = client as ClientProperties
  if (properties.isCluster === true || properties.masters !== undefined) {
    const rule = "client must be one for a single server: for a cluster use the RedisStore of 'tollgate'"
    throw new TollgateError('INVALID_OPTION', rule)
  }
  if (typeof properties.call === 'function') {
    refuseResending(properties.options?.autoResendUnfulfilledCommands === true, 'autoResendUnfulfilledCommands: false')
    return commandRunner(([name = '', ...args]) => (client as IoredisClient).call(name, ...args))
  }
  if (typeof properties.sendCommand === 'function') {
    return commandRunner((command) => (client as NodeRedisClient).sendCommand(command))
  }
  if (typeof properties.evalsha === 'function' && typeof properties.eval === 'function') {
    refuseResending(Number(properties.client?.retry?.attempts ?? 0) > 0, 'retry: { retries: 0 }')
    const { eval: evaluate, evalsha } = client as ScriptClient
    return { keepsOrder: false, eval: evaluate.bind(client), evalsha: evalsha.bind(client) }
  }
  throw invalid('INVALID_OPTION', 'client', RULE, client)
}

function refuseResending(resends: boolean, option: string): void {
  if (resends) {
    const why = 'it resends commands with an unknown outcome, which would charge twice'
    throw new TollgateError('INVALID_OPTION', `client must be made with ${option}: otherwise ${why}`)
  }
}

function commandRunner(run: RunCommand): ScriptRunner {
  const evaluate = (name: string, script: string, keys: string[], args: string[]) =>
    run([name, script, String(keys.length), ...keys, ...args])
  return {
    keepsOrder: true,
    evalsha: (digest, keys, args) => evaluate('EVALSHA', digest, keys, args),
    eval: (source, keys, args) => evaluate('EVAL', source, keys, args),
  }
}
