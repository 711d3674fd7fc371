/** Stores, processes and worker threads end during a fault, and a flood of calls begins. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { RedisServer } from '../../../__tests__/servers/redis-server.js'
import { TcpProxy } from '../../../__tests__/servers/tcp-proxy.js'
import type { Fault } from '../fault.js'
import { closedInTrouble, floodedWhileDown, rowOf } from '../flood.js'
import { LoopDelay } from '../loop-delay.js'

/** A condition that makes a store useless. `begin` causes it, and `end` ends it. */
interface Trouble {
  readonly name: string
  begin(server: RedisServer, proxy: TcpProxy): Promise<unknown>
  end(server: RedisServer, proxy: TcpProxy): Promise<unknown>
}

const TROUBLES: readonly Trouble[] = [
  { name: 'none', begin: async () => {}, end: async () => {} },
  { name: 'killed', begin: (server) => server.kill(), end: (server) => server.begin() },
  { name: 'frozen', begin: async (server) => server.freeze(), end: async (server) => server.thaw() },
  { name: 'half-open', begin: async (_, proxy) => proxy.hold(), end: async (_, proxy) => proxy.release() },
  {
    name: 'silent to new connections',
    begin: async (_, proxy) => {
      proxy.hold()
      proxy.cut()
    },
    end: async (_, proxy) => proxy.release(),
  },
  {
    name: 'busy',
    begin: async (server) => {
      void server.command('EVAL', 'while true do end', 0).catch(() => {})
      await sleep(100)
    },
    end: (server) => server.command('SCRIPT', 'KILL'),
  },
]

const floodWhileDown: Fault = {
  name: 'flood-while-down',
  title: '10,000 calls in one turn of the event loop without a server; then the server starts',
  run: async () => {
    await using server = await RedisServer.reserve()
    return await floodedWhileDown({ url: server.url }, () => server.begin())
  },
}

const closing: Fault = {
  name: 'close',
  title: 'close() with 1,000 calls in flight, under several conditions',
  run: async () => {
    await using server = await RedisServer.start({ config: ['lua-time-limit 50'] })
    await using proxy = await TcpProxy.start(server)
    const troubles = TROUBLES.map(({ name, begin, end }) => ({
      name,
      begin: () => begin(server, proxy),
      end: async () => {
        await end(server, proxy)
        proxy.cut()
      },
    }))
    return await closedInTrouble({ url: proxy.url }, troubles)
  },
}

/** The ways in which a process with calls in flight ends, and the condition of its server. */
const ENDINGS: readonly (readonly [how: string, trouble: string])[] = [
  // The process lives until its calls have settled, and no longer.
  ['return', 'none'],
  ['return', 'frozen'],
  ['return', 'killed'],
  ['exit', 'none'],
  ['exit', 'frozen'],
  ['exit', 'killed'],
  ['terminate', 'none'],
  ['terminate', 'frozen'],
  ['terminate', 'killed'],
]

/** A process that takes longer hangs. The limit is high because the machine may be busy. */
const MOST_ENDING_MS = 5_000

const exits: Fault = {
  name: 'exits',
  title: 'a process returns, calls process.exit(), or terminates its worker threads, with calls in flight',
  run: async () => {
    const [broken, notes]: [string[], string[]] = [[], []]
    await using server = await RedisServer.start()
    await using proxy = await TcpProxy.start(server)
    for (const [how, name] of ENDINGS) {
      const trouble = TROUBLES.find((one) => one.name === name) as Trouble
      const child = spawn(process.execPath, [join(__dirname, '../programs/ending.js'), how, server.url], {
        stdio: ['pipe', 'pipe', 'pipe'],
      })
      const errors = text(child.stderr)
      const ended = once(child, 'exit') as Promise<[number | null, string | null]>
      // It has connected, and waits for the signal.
      await Promise.race([once(child.stdout, 'data'), ended])
      await trouble.begin(server, proxy)
      const start = performance.now()
      child.stdin.end('go')
      const stuck = sleep(20_000, undefined, { ref: false }).then(() => child.kill('SIGKILL'))
      const [code, signal] = await ended
      void stuck
      const ms = performance.now() - start
      await trouble.end(server, proxy)
      notes.push(`${how}, server ${name}: ${ms.toFixed()} ms`)
      const said = await errors
      if (code !== 0 || said !== '') {
        broken.push(`${how}, server ${name}: ended with ${code ?? signal} ${said.split('\n')[0]}`)
      } else if (ms > MOST_ENDING_MS) {
        broken.push(`${how}, server ${name}: it took ${ms.toFixed()} ms to end`)
      }
    }
    return rowOf([], new LoopDelay(), { normalMs: 0, notes, broken })
  },
}

export const ENDING_FAULTS: readonly Fault[] = [floodWhileDown, closing, exits]
