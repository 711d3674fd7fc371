/** The examples, run as their readers do: as processes of their own, against the built package. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { request } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'

export const ROOT = join(__dirname, '..', '..')

/** An example that runs. */
export interface Example {
  /** What it has printed so far, line by line. */
  readonly lines: readonly string[]
  /** The next line, or `undefined` at the end. */
  line(): Promise<string | undefined>
  /** Asks it to end, or waits until it does so by itself: how it ended, and what it complained of. */
  end(signal?: 'SIGTERM' | 'SIGINT'): Promise<{ readonly code: number | null; readonly stderr: string }>
  /** Ends it at once if it still runs. */
  [Symbol.asyncDispose](): Promise<void>
}

/** Starts a program below the package's folder. */
export function start(file: string, env: NodeJS.ProcessEnv = {}): Example {
  const child = spawn(process.execPath, [join(ROOT, file)], {
    cwd: ROOT,
    env: { ...process.env, REDIS_URL: '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exited = once(child, 'exit')
  const stderr = text(child.stderr)
  const lines: string[] = []
  const printed = createInterface(child.stdout)[Symbol.asyncIterator]()
  const line = async () => {
    const { value, done } = await printed.next()
    if (done) return undefined
    lines.push(value)
    return value
  }
  return {
    lines,
    line,
    async end(signal) {
      if (signal !== undefined) child.kill(signal)
      while ((await line()) !== undefined);
      const [code] = await exited
      return { code, stderr: await stderr }
    },
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGKILL')
        await exited
      }
    },
  }
}

/** An example that serves. */
export interface Served extends Example {
  readonly url: string
}

/** Starts a program that serves, on a free port, and waits until it says where. */
export async function serve(file: string, env: NodeJS.ProcessEnv = {}): Promise<Served> {
  const example = start(file, { PORT: '0', ...env })
  const url = await example.line()
  if (url === undefined || !/^http:\/\/[^ ]+:\d+$/.test(url)) {
    const { code, stderr } = await example.end('SIGTERM')
    throw new Error(`${file} ended with ${code}, and did not say where it serves: ${stderr}`)
  }
  return { ...example, url }
}

/** Asks a server that serves to end, as its operator does: it has to close what it has opened, and to be silent. */
export async function endInOrder(example: Example): Promise<void> {
  expect(await example.end('SIGTERM')).toEqual({ code: 0, stderr: '' })
}

/** What is asked of a server. */
export interface Asked {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly json?: unknown
  /** The address it comes from, of this machine: `127.0.0.2` and so on. */
  readonly from?: string
}

/** What a server answered. */
export interface Answer {
  readonly status: number | undefined
  readonly headers: NodeJS.Dict<string | string[]>
  readonly body: string
}

/** Asks a server on a connection of its own: `fetch` cannot choose the address it comes from. */
export async function ask(url: string, { method, headers, json, from = '127.0.0.1' }: Asked = {}): Promise<Answer> {
  const { port, pathname, search } = new URL(url)
  const type = json === undefined ? {} : { 'content-type': 'application/json' }
  const asked = request({
    host: '127.0.0.1',
    port,
    path: pathname + search,
    localAddress: from,
    method: method ?? (json === undefined ? 'GET' : 'POST'),
    headers: { ...type, ...headers },
    agent: false,
  })
  asked.end(json === undefined ? undefined : JSON.stringify(json))
  const [response] = await once(asked, 'response')
  return { status: response.statusCode, headers: response.headers, body: await text(response) }
}

/** Asks the same so many times, one after another. */
export async function askTimes(times: number, url: string, asked?: Asked): Promise<Answer[]> {
  const answers: Answer[] = []
  for (let time = 0; time < times; time++) answers.push(await ask(url, asked))
  return answers
}

/** A field of an answer. */
export function field(answer: Answer | undefined, name: string): string | undefined {
  const value = answer?.headers[name]
  return value === undefined ? undefined : `${value}`
}

/** How often each status was answered. */
export function statuses(answers: readonly Answer[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { status } of answers) counts[`${status}`] = (counts[`${status}`] ?? 0) + 1
  return counts
}
