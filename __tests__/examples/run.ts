/** Runs the examples as processes, against the built package. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { request } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'

export const ROOT = join(__dirname, '..', '..')

/** A running example. */
export interface Example {
  /** Its output so far, line by line. */
  readonly lines: readonly string[]
  /** The next line, or `undefined` at the end. */
  line(): Promise<string | undefined>
  /** Sends a signal or waits for the exit, and returns the exit status and stderr. */
  end(signal?: 'SIGTERM' | 'SIGINT'): Promise<{ readonly code: number | null; readonly stderr: string }>
  /** Kills it if it still runs. */
  [Symbol.asyncDispose](): Promise<void>
}

/** Starts a program of the repository. */
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

/** A running example server. */
export interface ServedExample extends Example {
  readonly url: string
}

/** Starts an example server on a free port, and waits until it prints its URL. */
export async function serve(file: string, env: NodeJS.ProcessEnv = {}): Promise<ServedExample> {
  const example = start(file, { PORT: '0', ...env })
  const url = await example.line()
  if (url === undefined || !/^http:\/\/[^ ]+:\d+$/.test(url)) {
    const { code, stderr } = await example.end('SIGTERM')
    throw new Error(`${file} ended with ${code}, and did not say where it serves: ${stderr}`)
  }
  return { ...example, url }
}

/** Shuts a server down with a signal: it must close its resources, and print no error. */
export async function endInOrder(example: Example): Promise<void> {
  expect(await example.end('SIGTERM')).toEqual({ code: 0, stderr: '' })
}

/** A request to a server. */
export interface ExampleRequest {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string | string[]>>
  /** Sent as JSON. */
  readonly json?: unknown
  /** The local address of the client: `127.0.0.2` and so on. */
  readonly from?: string
}

/** A server's answer. */
export interface Answer {
  readonly status: number | undefined
  readonly headers: NodeJS.Dict<string | string[]>
  readonly body: string
}

/** Sends a request on its own connection: `fetch` cannot choose the local address. */
export async function sendRequest(
  url: string,
  { method, headers, json, from = '127.0.0.1' }: ExampleRequest = {},
): Promise<Answer> {
  const { port, pathname, search } = new URL(url)
  const type = json === undefined ? {} : { 'content-type': 'application/json' }
  const outgoing = request({
    host: '127.0.0.1',
    port,
    path: pathname + search,
    localAddress: from,
    method: method ?? (json === undefined ? 'GET' : 'POST'),
    headers: { ...type, ...headers },
    agent: false,
  })
  outgoing.end(json === undefined ? undefined : JSON.stringify(json))
  const [response] = await once(outgoing, 'response')
  return { status: response.statusCode, headers: response.headers, body: await text(response) }
}

/** Repeats a request sequentially. */
export async function sendRepeatedly(times: number, url: string, outgoing?: ExampleRequest): Promise<Answer[]> {
  const answers: Answer[] = []
  for (let time = 0; time < times; time++) answers.push(await sendRequest(url, outgoing))
  return answers
}

/** A field of an answer. */
export function field(answer: Answer | undefined, name: string): string | undefined {
  const value = answer?.headers[name]
  return value === undefined ? undefined : `${value}`
}

/** The number of answers with each status. */
export function statuses(answers: readonly Answer[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { status } of answers) counts[`${status}`] = (counts[`${status}`] ?? 0) + 1
  return counts
}
