import { TollgateError } from '../../api/error.js'
import { invalid } from '../../input/options.js'

/**
 * Runs a command, such as `['EVALSHA', …]`, and resolves to what Redis answers. Redis must get commands in the order of
 * the calls, as it does over one connection: otherwise calls on a key are decided in another order. A command that may
 * have run must not be sent again: its units would be charged twice.
 */
export type RunCommand = (command: string[]) => Promise<unknown>

/** An `ioredis` client, made with `autoResendUnfulfilledCommands: false`. */
export interface IoredisClient {
  /** Runs a command. */
  call(command: string, ...args: string[]): Promise<unknown>
}

/** A client of node-redis (`redis`, `@redis/client`). */
export interface NodeRedisClient {
  /** Runs a command, of its name and its arguments. */
  sendCommand(command: string[]): Promise<unknown>
}

/**
 * A client of the kind of `@upstash/redis`, made with `retry: { retries: 0 }`. Its requests may overtake each other: so
 * what asks of a key waits until what was asked of it before has been answered.
 */
export interface ScriptClient {
  /** Runs a script. */
  eval(script: string, keys: string[], args: string[]): Promise<unknown>
  /** Runs a script that the server has, by its digest. */
  evalsha(digest: string, keys: string[], args: string[]): Promise<unknown>
}

/** What can run a script. A function that carries commands need not carry bytes: all is text. */
export type RedisClient = RunCommand | IoredisClient | NodeRedisClient | ScriptClient

/** A script's ways to Redis. */
export interface Carrier {
  /** Whether the server gets calls in the order in which they were made, as over one connection. */
  readonly keepsOrder: boolean
  evalsha(digest: string, keys: string[], args: string[]): Promise<unknown>
  eval(source: string, keys: string[], args: string[]): Promise<unknown>
}

/** What is looked at of clients. */
interface Known {
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
 * The ways of a client.
 *
 * @throws {TollgateError} `INVALID_OPTION` for what is no client, is one of a cluster, or is known to send commands again
 * whose fate it does not know: they would be charged twice.
 */
export function carrierOf(client: unknown): Carrier {
  if (typeof client === 'function') {
    return byCommands((command) => (client as RunCommand)(command))
  }
  if (typeof client !== 'object' || client === null) {
    throw invalid('INVALID_OPTION', 'client', RULE, client)
  }
  const known = client as Known
  if (known.isCluster === true || known.masters !== undefined) {
    const rule = "client must be one of a single server: for a cluster take the RedisStore of 'tollgate'"
    throw new TollgateError('INVALID_OPTION', rule)
  }
  if (typeof known.call === 'function') {
    refuseResending(known.options?.autoResendUnfulfilledCommands === true, 'autoResendUnfulfilledCommands: false')
    return byCommands(([name = '', ...args]) => (client as IoredisClient).call(name, ...args))
  }
  if (typeof known.sendCommand === 'function') {
    return byCommands((command) => (client as NodeRedisClient).sendCommand(command))
  }
  if (typeof known.evalsha === 'function' && typeof known.eval === 'function') {
    refuseResending(Number(known.client?.retry?.attempts ?? 0) > 0, 'retry: { retries: 0 }')
    const { eval: evaluate, evalsha } = client as ScriptClient
    return { keepsOrder: false, eval: evaluate.bind(client), evalsha: evalsha.bind(client) }
  }
  throw invalid('INVALID_OPTION', 'client', RULE, client)
}

function refuseResending(resends: boolean, option: string): void {
  if (resends) {
    const why = 'it sends commands again when it does not know what became of them, which would charge twice'
    throw new TollgateError('INVALID_OPTION', `client must be made with ${option}: otherwise ${why}`)
  }
}

function byCommands(run: RunCommand): Carrier {
  const evaluate = (name: string, script: string, keys: string[], args: string[]) =>
    run([name, script, String(keys.length), ...keys, ...args])
  return {
    keepsOrder: true,
    evalsha: (digest, keys, args) => evaluate('EVALSHA', digest, keys, args),
    eval: (source, keys, args) => evaluate('EVAL', source, keys, args),
  }
}
