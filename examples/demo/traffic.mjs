// The client side of the demo: three clients with different behaviour, over real HTTP.
import { setTimeout as sleep } from 'node:timers/promises'

/** Length of a column. Requests are counted by column, as the screen draws them. */
export const COLUMN_MS = 200

/** One client, and the results of its requests. */
class Client {
  sent = 0
  allowed = 0
  refused = 0
  /** The same, by column of time. */
  columns = []
  /** The first refusal, complete. */
  refusal = undefined

  constructor(name, manner, behave) {
    this.name = name
    this.manner = manner
    this.behave = behave
  }

  /** Sends one request and counts its answer. */
  async request({ urls, startedAt }) {
    // With several servers, every client uses all of them in turn.
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

/** Stays a little below the limit, by the clock. It never has two requests in flight. */
async function polite(client, run) {
  while (!run.signal.aborted) {
    const next = performance.now() + 1000 / 9
    await client.request(run)
    await pause(next - performance.now(), run.signal)
  }
}

/** Sends many requests at once, and then rests until the whole burst has refilled. */
async function bursty(client, run) {
  while (!run.signal.aborted) {
    await Promise.all(Array.from({ length: 30 }, () => client.request(run)))
    await pause(2500, run.signal)
  }
}

/** Uses several connections with hardly any pause, and ignores refusals. */
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

/** Runs all clients until the signal. Resolves after the last answer. */
export async function runTraffic(clients, run) {
  await Promise.all(clients.map((client) => client.behave(client, run)))
}
