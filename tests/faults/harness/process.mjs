/** One of the processes that share a limit: it makes the calls that the scenario asks for, and logs them. */
import { setTimeout as sleep } from 'node:timers/promises'
import { PATIENCE_MS } from './checker.mjs'
import { now } from './clock.mjs'
import { starved } from './starvation.mjs'

const { name, options } = JSON.parse(process.argv[2])
const { contender } = await import(`../contenders/${name}.mjs`)

/** @type {import('./checker.mjs').Call[]} */
const log = []
/** Errors by message, of calls and of what a library throws outside of them. */
const errors = {}
const timers = new Set()

function failedWith(error) {
  const message = `${error?.message ?? error}`.split('\n')[0].slice(0, 120)
  errors[message] = (errors[message] ?? 0) + 1
}

// A program would end here. This one counts, so that the other figures can be told.
process.on('uncaughtException', (error) => failedWith(`uncaught: ${error?.message ?? error}`))

const opened = await contender.open(options)

async function call(key, cost = 1) {
  const entry = { key, cost, start: now(), starvedMs: -starved() }
  log.push(entry)
  try {
    const { allowed } = await opened.take(key, cost)
    entry.outcome = allowed ? 'allowed' : 'refused'
  } catch (error) {
    entry.outcome = 'failed'
    failedWith(error)
  }
  entry.end = now()
  entry.starvedMs += starved()
}

const JOBS = {
  /** Calls all at once, or one after the other. */
  async calls({ key, count = 1, cost, isParallel = false }) {
    const all = []
    for (let made = 0; made < count; made++) {
      const one = call(key, cost)
      all.push(one)
      if (!isParallel) await Promise.race([one, sleep(PATIENCE_MS)])
    }
    await Promise.race([Promise.all(all), sleep(PATIENCE_MS)])
  },

  /** Begins to call keys at regular times, whether earlier calls were answered or not. */
  load({ everyMs }) {
    for (const [key, ms] of Object.entries(everyMs)) {
      timers.add(setInterval(() => void call(key), ms))
    }
  },

  /** Ends the load, and waits until each call is answered or counts as unanswered. */
  async rest() {
    for (const timer of timers) clearInterval(timer)
    const end = now() + PATIENCE_MS
    while (log.some(({ end }) => end === undefined) && now() < end) await sleep(50)
  },

  /** Takes a key's remaining units, and returns their number. These calls are not in the log. */
  async drain({ key, most }) {
    for (let units = 0; units <= most; units++) {
      const { allowed } = await opened.take(key, 1)
      if (!allowed) return units
    }
    return most + 1
  },

  hold: ({ key }) => opened.hold(key),

  log: () => ({ log, errors, starvedMs: starved() }),
}

process.on('message', async ({ id, job, ...words }) => {
  try {
    process.send({ id, result: await JOBS[job](words) })
  } catch (error) {
    process.send({ id, error: `${error?.stack ?? error}` })
  }
})
// The scenario has ended, in any way.
process.on('disconnect', () => process.exit())
process.send({ isReady: true })
