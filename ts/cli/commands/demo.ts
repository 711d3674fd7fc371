import { Command, Option } from 'commander'
import { RateLimiter, type RedisUrl } from '../../api/rate-limiter.js'
import { type DemoRun, makeClients } from '../demo/clients.js'
import { runServerProcess, SERVER_COMMAND, startProcess } from '../demo/process.js'
import { type DemoState, FRAME_COLUMNS, FRAME_ROWS, frame, violationsOf } from '../demo/screen.js'
import { checkRedis, type DemoServer, POLICY, startServer } from '../demo/server.js'
import { EXIT, type ExitCode } from '../exit-codes.js'
import { usageError } from '../failure.js'
import { paintFor, type Terminal } from '../terminal.js'

interface DemoOptions {
  readonly seconds: number
}

const DESCRIPTION = `Starts a limited server and three clients: a polite one, one that sends bursts, and a flood. It draws the \
allowed and the refused requests, and checks the bound at the end. With a URL, or REDIS_URL, it starts two \
server processes that share their counts in Redis.`

/** `tollgate-cli demo`: real requests to a limited server, drawn live. */
export function demoCommand(terminal: Terminal, done: (code: ExitCode) => void): Command {
  const { REDIS_URL }: { readonly REDIS_URL?: string } = terminal.env
  return new Command('demo')
    .summary('watch three clients of a limited server')
    .description(DESCRIPTION)
    .argument('[url]', 'the Redis that two server processes share (default: REDIS_URL, if it is set)')
    .addOption(
      new Option('--seconds <seconds>', 'how long it runs, up to 3600').default(10).argParser((text) => {
        const seconds = Number(text)
        if (!(seconds > 0 && seconds <= 3_600)) {
          throw usageError(`--seconds must be a number above 0, up to 3600, got '${text}'`)
        }
        return seconds
      }),
    )
    .addHelpText('after', '\nExamples:\n  npx tollgate-cli demo\n  npx tollgate-cli demo redis://localhost')
    .action(async (url: string | undefined, { seconds }: DemoOptions) => {
      const state = await runDemo(seconds, (url ?? REDIS_URL) || undefined, terminal)
      done(violationsOf(state).length === 0 ? EXIT.fine : EXIT.no)
    })
}

/** `tollgate-cli demo-server`: a server process of the demo. */
export function demoServerCommand(terminal: Terminal): Command {
  const { REDIS_URL = '' }: { readonly REDIS_URL?: string } = terminal.env
  return new Command(SERVER_COMMAND)
    .argument('<prefix>')
    .action((prefix: string) => runServerProcess({ store: REDIS_URL as RedisUrl, prefix }))
}

async function runDemo(seconds: number, redis: string | undefined, terminal: Terminal): Promise<DemoState> {
  const servers = redis === undefined ? [await startServer()] : await startProcesses(redis as RedisUrl)
  const clients = makeClients()
  const stop = new AbortController()
  const startedAt = performance.now()
  const separate = servers.length === 1 ? [] : servers.map(() => new RateLimiter(POLICY))
  const run: DemoRun = { urls: servers.map(({ url }) => url), seconds, signal: stop.signal, startedAt, separate }
  const stateAt = (isOver: boolean): DemoState => {
    return { clients, servers: servers.length, seconds, elapsed: (performance.now() - startedAt) / 1_000, isOver }
  }
  // Ctrl-C ends the run early, with its result.
  const interrupt = () => stop.abort()
  process.once('SIGINT', interrupt)
  const timer = setTimeout(interrupt, seconds * 1_000)
  const screen = startScreen(stateAt, terminal)
  try {
    await Promise.all(clients.map((client) => client.behave(client, run)))
    const state = stateAt(true)
    screen.end(state)
    return state
  } finally {
    interrupt()
    clearTimeout(timer)
    process.off('SIGINT', interrupt)
    screen.stop()
    await Promise.all([...servers, ...separate].map((one) => one.close()))
  }
}

/** Two servers that share their counts. If one fails, the other is closed. */
async function startProcesses(store: RedisUrl): Promise<readonly DemoServer[]> {
  const shared = { store, prefix: `demo-${process.pid}` }
  await checkRedis(shared)
  const settled = await Promise.allSettled([startProcess(shared), startProcess(shared)])
  const failed = settled.find((one) => one.status === 'rejected')
  const started = settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  if (failed !== undefined) {
    await Promise.all(started.map((one) => one.close()))
    throw failed.reason
  }
  return started
}

/** Draws the run: live on a terminal that is large enough, otherwise a line for each client and second. */
function startScreen(stateAt: (isOver: boolean) => DemoState, terminal: Terminal) {
  const { stdout, env } = terminal
  const { columns = 80, rows = 24 } = stdout
  const { TERM }: { readonly TERM?: string } = env
  const isLive = stdout.isTTY === true && rows > FRAME_ROWS && columns >= FRAME_COLUMNS && TERM !== 'dumb'
  const paint = paintFor(terminal)
  let drawn = 0
  const draw = (state: DemoState) => {
    const text = frame(state, columns, paint)
    // Line by line: a terminal such as tmux keeps an erased screen, and so would keep every frame.
    const over = drawn === 0 ? `${text}\n` : `\u001b[${drawn}A${`${text}\n`.replaceAll('\n', '\u001b[K\n')}\u001b[J`
    stdout.write(over)
    drawn = isLive ? text.split('\n').length : 0
  }
  const list = () => stdout.write(lines(stateAt(false)))
  const timer = setInterval(() => (isLive ? draw(stateAt(false)) : list()), isLive ? 100 : 1_000)
  return { end: draw, stop: () => clearInterval(timer) }
}

function lines({ clients, elapsed }: DemoState): string {
  const time = `${elapsed.toFixed(1).padStart(6)} s`
  return clients
    .map(({ name, allowed, refused }) => {
      const [shownAllowed, shownRefused] = [allowed, refused].map((count) => String(count).padStart(6))
      return `${time}   ${name.padEnd(8)}  allowed${shownAllowed}   refused${shownRefused}\n`
    })
    .join('')
}
