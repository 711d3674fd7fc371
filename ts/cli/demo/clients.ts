import { setTimeout as sleep } from 'node:timers/promises'
import type { EmbeddedRateLimiter } from '../../api/rate-limiter.js'

/** The length of a column. Requests are counted by column, as the screen draws them. */
export const COLUMN_MS = 200

export interface DemoRun {
  readonly urls: readonly string[]
  readonly seconds: number
  readonly signal: AbortSignal
  readonly startedAt: number
  /** One limiter for each server, which nothing shares: for comparison. */
  readonly separate: readonly EmbeddedRateLimiter[]
}

/** One client, and the results of its requests. */
export class DemoClient {
  sent = 0
  refused = 0
  /** The allowed requests, by server. */
  readonly allowedBy: number[] = []
  /** Allowed requests of each server, and refused ones of all, by column of time. */
  readonly allowedIn: number[][] = []
  readonly refusedIn: number[] = []
  /** The requests that servers with separate counters would have allowed, by column of time. */
  readonly separatelyIn: number[] = []
  refusal: Pick<Response, 'status' | 'statusText' | 'headers'> | undefined

  constructor(
    readonly name: string,
    readonly manner: string,
    readonly behave: (client: DemoClient, run: DemoRun) => Promise<void>,
  ) {}

  get allowed(): number {
    return this.allowedBy.reduce((sum, count) => sum + count, 0)
  }

  get separatelyAllowed(): number {
    return this.separatelyIn.reduce((sum, count) => sum + count, 0)
  }

  /** Sends one request and counts its answer. With several servers, every client uses all in turn. */
  async request({ urls, startedAt, separate }: DemoRun): Promise<void> {
    const server = this.sent++ % urls.length
    if (separate[server]?.takeSync(this.name).allowed === true) {
      const column = Math.floor((performance.now() - startedAt) / COLUMN_MS)
      this.separatelyIn[column] = (this.separatelyIn[column] ?? 0) + 1
    }
    const response = await fetch(urls[server] as string, { headers: { 'x-client': this.name } })
    const body = await response.text()
    const { status, statusText, headers } = response
    if (status !== 200 && status !== 429) {
      throw new Error(`${this.name}: expected 200 or 429, got ${status}: ${body}`)
    }
    const column = Math.floor((performance.now() - startedAt) / COLUMN_MS)
    if (status === 200) {
      this.allowedBy[server] = (this.allowedBy[server] ?? 0) + 1
      this.allowedIn[server] ??= []
      const columns = this.allowedIn[server]
      columns[column] = (columns[column] ?? 0) + 1
    } else {
      this.refused++
      this.refusedIn[column] = (this.refusedIn[column] ?? 0) + 1
      this.refusal ??= { status, statusText, headers }
    }
  }
}

export function makeClients(): readonly DemoClient[] {
  return [
    new DemoClient('polite', '9 requests a second: just below the limit', polite),
    new DemoClient('bursty', '30 at once, then 2.5 seconds of rest', bursty),
    new DemoClient('flood', 'as fast as it can on 6 connections', flood),
  ]
}

/** Stays a little below the limit, by the clock. It never has two requests in flight. */
async function polite(client: DemoClient, run: DemoRun): Promise<void> {
  while (!run.signal.aborted) {
    const next = performance.now() + 1_000 / 9
    await client.request(run)
    await pause(next - performance.now(), run.signal)
  }
}

/** Sends many requests at once, and then rests until the whole burst has refilled. */
async function bursty(client: DemoClient, run: DemoRun): Promise<void> {
  while (!run.signal.aborted) {
    await Promise.all(Array.from({ length: 30 }, () => client.request(run)))
    await pause(2_500, run.signal)
  }
}

/** Uses several connections with hardly any pause, and ignores refusals. */
async function flood(client: DemoClient, run: DemoRun): Promise<void> {
  const connection = async () => {
    while (!run.signal.aborted) {
      await client.request(run)
      await pause(12, run.signal)
    }
  }
  await Promise.all(Array.from({ length: 6 }, connection))
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(Math.max(0, ms), undefined, { signal }).catch(() => {})
}
