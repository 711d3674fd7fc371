import { TollgateError } from '../../api/error.js'
import { invalid } from '../../input/options.js'
import { inRootContext } from '../../platform/root-context.js'

/**
 * Runs a command, such as `['EVALSHA', …]`, and resolves with Redis's reply. Commands must reach
 * Redis in call order, as over one connection. A command that may have run must not be sent again: its units
 * would be charged twice.
 */
export type RunCommand = (command: string[]) => Promise<unknown>

/**
 * An `ioredis` or `iovalkey` client, made with `autoResendUnfulfilledCommands: false` and without `keyPrefix`. Its
 * `reconnectOnError` may return 2 only for errors such as READONLY, after which nothing has run.
 */
export interface IoredisClient {
  /** Runs a command. */
  call(command: string, ...args: string[]): Promise<unknown>
}

/** A client of node-redis (`redis`, `@redis/client`), or a pool of them. */
export interface NodeRedisClient {
  /** Runs a command, given as its name and arguments. */
  sendCommand(command: string[]): Promise<unknown>
}

/** A `GlideClient` of `@valkey/valkey-glide`. Calls on a key wait for each other, as with {@link ScriptClient}. */
export interface GlideClient {
  /** Runs a command, given as its name and arguments. */
  customCommand(command: string[]): Promise<unknown>
}

/** A client like `@upstash/redis`, made with `retry: { retries: 0 }`. Calls on a key wait for each other. */
export interface ScriptClient {
  /** Runs a script. */
  eval(script: string, keys: string[], args: string[]): Promise<unknown>
  /** Runs a script that the server has cached, by its digest. */
  evalsha(digest: string, keys: string[], args: string[]): Promise<unknown>
}

/** A client that can run scripts. All keys and arguments are text. */
export type RedisClient = RunCommand | IoredisClient | NodeRedisClient | GlideClient | ScriptClient

export interface ScriptRunner {
  /** Whether commands reach the server in call order, as over one connection. */
  readonly keepsOrder: boolean
  evalsha(digest: string, keys: string[], args: string[]): Promise<unknown>
  eval(source: string, keys: string[], args: string[]): Promise<unknown>
}

interface ClientProperties {
  readonly call?: unknown
  readonly sendCommand?: unknown
  readonly customCommand?: unknown
  readonly eval?: unknown
  readonly evalsha?: unknown
  /** Of ioredis and iovalkey. */
  readonly isCluster?: unknown
  readonly options?: {
    readonly autoResendUnfulfilledCommands?: unknown
    readonly keyPrefix?: unknown
    readonly reconnectOnError?: unknown
  }
  /** Of clusters of node-redis. */
  readonly masters?: unknown
  /** Of pools of node-redis. */
  readonly totalClients?: unknown
  /** Of Sentinel clients of node-redis. */
  readonly getSentinelNode?: unknown
  /** Of cluster clients of `@valkey/valkey-glide`. */
  readonly invokeScriptWithRoute?: unknown
  /** Of `@upstash/redis`. */
  readonly client?: { readonly retry?: { readonly attempts?: unknown } }
}

const RULE =
  'must be an ioredis, iovalkey, node-redis, @valkey/valkey-glide or @upstash/redis client, or a function that runs a command'

/** The replacement for an unsupported client. */
const STORE_INSTEAD = "use the RedisStore of 'tollgate'"

/** The script runner for a client. @throws {TollgateError} `INVALID_OPTION` */
export function scriptRunnerOf(client: unknown): ScriptRunner {
  const { keepsOrder, eval: evaluate, evalsha } = runnerOf(client)
  // A client that connects on its first command keeps the context of that call with its socket.
  return {
    keepsOrder,
    eval: (...command) => inRootContext(() => evaluate(...command)),
    evalsha: (...command) => inRootContext(() => evalsha(...command)),
  }
}

function runnerOf(client: unknown): ScriptRunner {
  if (typeof client === 'function') {
    return commandRunner((command) => (client as RunCommand)(command))
  }
  if (typeof client !== 'object' || client === null) {
    throw invalid('INVALID_OPTION', 'client', RULE, client)
  }
  const properties = client as ClientProperties
  refuseUnsupported(properties)
  if (typeof properties.call === 'function') {
    return commandRunner(([name = '', ...args]) => (client as IoredisClient).call(name, ...args))
  }
  if (typeof properties.sendCommand === 'function') {
    const run: RunCommand = (command) => (client as NodeRedisClient).sendCommand(command)
    // The commands of a pool go over several connections.
    return commandRunner(run, properties.totalClients === undefined)
  }
  if (typeof properties.customCommand === 'function') {
    return commandRunner((command) => glideCommand(client as GlideClient, command), false)
  }
  if (typeof properties.evalsha === 'function' && typeof properties.eval === 'function') {
    const { eval: evaluate, evalsha } = client as ScriptClient
    return { keepsOrder: false, eval: evaluate.bind(client), evalsha: evalsha.bind(client) }
  }
  throw invalid('INVALID_OPTION', 'client', RULE, client)
}

function refuseUnsupported(client: ClientProperties): void {
  const refused = (rule: string) => new TollgateError('INVALID_OPTION', `client must be ${rule}`)
  if (client.isCluster === true || client.masters !== undefined || client.invokeScriptWithRoute !== undefined) {
    throw refused(`one for a single server: for a cluster ${STORE_INSTEAD}`)
  }
  if (client.getSentinelNode !== undefined) {
    throw refused(`one for a single server, because node-redis resends commands by Sentinel: ${STORE_INSTEAD}`)
  }
  const { autoResendUnfulfilledCommands, keyPrefix, reconnectOnError } = client.options ?? {}
  if (autoResendUnfulfilledCommands === true) {
    throw refused(`made with autoResendUnfulfilledCommands: false: ${RESENDS}`)
  }
  if (UNKNOWN_OUTCOMES.some((message) => isResentAfter(reconnectOnError, message))) {
    throw refused(`made with a reconnectOnError that returns 2 only for READONLY: ${RESENDS}`)
  }
  if (Number(client.client?.retry?.attempts ?? 0) > 0) {
    throw refused(`made with retry: { retries: 0 }: ${RESENDS}`)
  }
  if (typeof keyPrefix === 'string' && keyPrefix !== '') {
    const why =
      'it renames the keys, and processes without it would count apart: begin the prefix of the limiter with it'
    throw refused(`made without keyPrefix: ${why}`)
  }
}

/** Errors of proxies (twemproxy, Envoy) after which a script may have run. READONLY proves that nothing has run. */
const UNKNOWN_OUTCOMES = ['ERR Connection timed out', 'upstream failure']

/** Whether ioredis would send a command again after this error. */
function isResentAfter(reconnectOnError: unknown, message: string): boolean {
  try {
    return typeof reconnectOnError === 'function' && reconnectOnError(new Error(message)) === 2
  } catch {
    return false
  }
}

const RESENDS = 'otherwise it resends commands with an unknown outcome, which would charge twice'

/** The error codes of servers for which `@valkey/valkey-glide` has a name of its own. */
const GLIDE_CODES: Readonly<Record<string, string>> = {
  Ask: 'ASK',
  BusyLoadingError: 'LOADING',
  ClusterDown: 'CLUSTERDOWN',
  CrossSlot: 'CROSSSLOT',
  MasterDown: 'MASTERDOWN',
  Moved: 'MOVED',
  NoScriptError: 'NOSCRIPT',
  PermissionDenied: 'NOPERM',
  ReadOnly: 'READONLY',
  ResponseError: 'ERR',
  TryAgain: 'TRYAGAIN',
}

async function glideCommand(client: GlideClient, command: string[]): Promise<unknown> {
  try {
    return await client.customCommand(command)
  } catch (error) {
    const text = error instanceof Error ? error.message : ''
    const [, name = '', rest] = /^(?:An error was signalled by the server: - )?([A-Za-z]+): (.*)$/s.exec(text) ?? []
    throw new Error(rest === undefined ? text : `${GLIDE_CODES[name] ?? name} ${rest}`, { cause: error })
  }
}

function commandRunner(run: RunCommand, keepsOrder = true): ScriptRunner {
  const evaluate = (name: string, script: string, keys: string[], args: string[]) =>
    run([name, script, String(keys.length), ...keys, ...args])
  return {
    keepsOrder,
    evalsha: (digest, keys, args) => evaluate('EVALSHA', digest, keys, args),
    eval: (source, keys, args) => evaluate('EVAL', source, keys, args),
  }
}
