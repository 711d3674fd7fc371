// The client side of the demo: three callers of different manners, over real HTTP.
import { setTimeout as sleep } from 'node:timers/promises'

/** Requests are counted by columns of this length, as the screen draws them. */
export const COLUMN_MS = 200

/** One caller, and what became of its requests. */
class Client {
  sent = 0
  allowed = 0
  refused = 0
  /** The same, by column of time. */
  columns = []
  /** The first refusal that it met, whole. */
  refusal = undefined

  constructor(name, manner, behave) {
    this.name = name
    this.manner = manner
    this.behave = behave
  }

  /** Sends one request and counts its answer. */
  async request({ urls, startedAt }) {
    // With several servers, every client talks to all of them in turn.
    const url = urls[this.sent++ % urls.length]
    const response = await fetch(url, { headers: { 'x-client': this.name } })
    const body = await response.text()
    if (response.status !== 200 && response.status !== 429) {
      throw new Error(`${this.name}: expected 200 or 429, got ${response.status}: ${body}`)
    }
    const outcome = response.ok ? 'allowed' : 'refused'
    const column = Math.floor((performance.now() - startedAt) / COLUMN_MS)
    this.columns[column] ??= { allowed: 0, refused: 0 }
    this.columns[column][outcome]++
    this[outcome]++
    if (!response.ok) {
      const { status, statusText, headers } = response
      this.refusal ??= { status, statusText, headers: [...headers], body }
    }
  }
}

/** Keeps a little below the limit, by the clock. It never has two requests under way. */
async function polite(client, run) {
  while (!run.signal.aborted) {
    const next = performance.now() + 1000 / 9
    await client.request(run)
    await pause(next - performance.now(), run.signal)
  }
}

/** Many at once, then a rest that is long enough for the burst to be whole again. */
async function bursty(client, run) {
  while (!run.signal.aborted) {
    await Promise.all(Array.from({ length: 30 }, () => client.request(run)))
    await pause(2500, run.signal)
  }
}

/** Several connections that hardly draw breath, and do not care what they are told. */
async function flood(client, run) {
  const connection = async () => {
    while (!run.signal.aborted) {
      await client.request(run)
      await pause(12, run.signal)
    }
  }
  await Promise.all(Array.from({ length: 6 }, connection))
}

/** Waits, but not beyond the end of the run. */
async function pause(ms, signal) {
  await sleep(Math.max(0, ms), undefined, { signal }).catch(() => {})
}

export function makeClients() {
  return [
    new Client('polite', '9 requests per second, evenly: just below the limit', polite),
    new Client('bursty', '30 requests at once, then 2.5 seconds of rest', bursty),
    new Client('flood', 'as fast as it can on 6 connections, whatever the answer', flood),
  ]
}

/** Lets all clients run until the signal; resolves when the last answer is in. */
export async function runTraffic(clients, run) {
  await Promise.all(clients.map((client) => client.behave(client, run)))
}
