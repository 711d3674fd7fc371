/** One simulation: processes with their own leases, over one store. */
import { gcra, MemoryStore } from '../../../dist/index.mjs'
import limiter from '../../../dist/limiter.js'
import { VirtualTime } from '../../simulation/calls/virtual-time.mjs'
import { DelayedStore } from './delayed-store.mjs'
import { processesOf } from './demand.mjs'

const { leasedPolicySet } = limiter['backends/local/leased-policies']
const { LocalBackend } = limiter['backends/local/local-backend']
const { localOptionsOf } = limiter['backends/local/local-options']
const { policySetOf } = limiter['policies/policy-set']

/** The time after the last call in which all answers arrive. */
const REST_MICROS = 1e6

/**
 * @typedef {object} Figures Of the measured calls on some keys.
 * @property {number} calls
 * @property {number} leased The calls that a lease decided.
 * @property {number} admitted
 * @property {number} operations The operations of the store.
 * @property {number} unused The units that leases charged and did not use.
 * @property {number} returned The unused units that came back. The others had drained.
 *
 * @typedef {object} Law
 * @property {number} excess The most units of a key above the law.
 * @property {number} margin The fewest units between the hottest key and the law.
 */

/**
 * Simulates demand. Each bucket starts empty: one call takes all its units. So calls are refused
 * from the beginning if the demand is above the limit.
 *
 * @param {ReturnType<typeof import('./demand.mjs').demandOf>} demand
 * @param {object} options
 * @param {number} options.limit The units per second of each key; the burst is the same.
 * @param {number} options.processes
 * @param {number} options.processSkew
 * @param {number} [options.leaseMs] Without it, each call asks the store.
 * @param {number} options.roundTripMs
 * @param {number} options.warmUpMicros Calls before this time are not measured.
 * @param {number} options.seed
 * @returns {Promise<{ all: Figures, hottest: Figures, law: Law }>}
 */
export async function simulate({ calls, keys }, options) {
  const { limit, processes, processSkew, leaseMs, roundTripMs, warmUpMicros, seed } = options
  const time = new VirtualTime()
  time.replaceTimers()
  const written = policyOf(limit)
  const policySet = leaseMs === undefined ? written : leasedPolicySet(written, leaseMs)
  const backend = new MemoryStore({ clock: time.storeNow }).open(undefined, policySet)
  const store = new DelayedStore(backend, time, roundTripMs, nameOf(0))
  const local = leaseMs === undefined ? undefined : localOptionsOf({ lease: `${leaseMs}ms` }, policySet)
  const backends = Array.from({ length: processes }, () => {
    return local === undefined ? store : new LocalBackend(store, local, time.now, new Set())
  })
  const uses = emptyBuckets(backend, keys, policySet.policies[0].policy.burst)
  const [all, hottest] = [noFigures(), noFigures()]

  const record = ({ atMicros, key }, { allowed, source, at }) => {
    const isLeased = source === 'lease'
    if (allowed) {
      uses.push({ at: isLeased ? time.storeNow() : at, key, units: 1 })
    }
    if (atMicros >= warmUpMicros) {
      for (const figures of key === 0 ? [all, hottest] : [all]) {
        figures.calls++
        figures.leased += isLeased ? 1 : 0
        figures.admitted += allowed ? 1 : 0
      }
    }
  }
  const callers = processesOf(calls, processes, processSkew, seed)
  const makeCall = (index) => {
    const call = calls[index]
    const answer = backends[callers[index]].take(nameOf(call.key), 1)
    if (answer instanceof Promise) {
      void answer.then((decision) => record(call, decision))
    } else {
      record(call, answer)
    }
  }

  const firstMeasured = calls.findIndex(({ atMicros }) => atMicros >= warmUpMicros)
  for (let index = 0; index < firstMeasured; index++) {
    await time.advanceTo(calls[index].atMicros)
    makeCall(index)
  }
  const before = { all: { ...store.all }, hottest: { ...store.hottest } }
  for (let index = firstMeasured; index < calls.length; index++) {
    await time.advanceTo(calls[index].atMicros)
    makeCall(index)
  }
  addDifference(all, before.all, store.all)
  addDifference(hottest, before.hottest, store.hottest)
  await time.advanceTo(calls[calls.length - 1].atMicros + REST_MICROS)

  if (all.calls !== calls.length - firstMeasured) {
    throw new Error('some calls have no answer')
  }
  return { all, hottest, law: lawOf(uses, limit, warmUpMicros) }
}

/** Takes all units of each bucket. */
function emptyBuckets(backend, keys, units) {
  return Array.from({ length: keys }, (_, key) => {
    const { allowed, at } = backend.take(nameOf(key), units)
    if (!allowed) {
      throw new Error('a full bucket refused its burst')
    }
    return { at, key, units }
  })
}

/** @returns {Figures} */
function noFigures() {
  return { calls: 0, leased: 0, admitted: 0, operations: 0, unused: 0, returned: 0 }
}

function addDifference(figures, before, after) {
  for (const name of Object.keys(after)) {
    figures[name] = after[name] - before[name]
  }
}

/**
 * Compares the use of units with the law of the original burst: a bucket of this burst must admit
 * all of them.
 *
 * @returns {Law}
 */
function lawOf(uses, limit, warmUpMicros) {
  let now = 0
  const oracle = new MemoryStore({ clock: () => now }).open(undefined, policyOf(limit))
  const excess = new Map()
  let margin = limit
  uses.sort((one, other) => one.at - other.at)
  const measuredAt = uses[0].at + warmUpMicros / 1_000
  for (const { at, key, units } of uses) {
    now = at
    const { allowed, remaining } = oracle.take(nameOf(key), units)
    if (!allowed) {
      excess.set(key, (excess.get(key) ?? 0) + units)
    }
    if (key === 0 && at >= measuredAt) {
      margin = Math.min(margin, remaining)
    }
  }
  return { excess: Math.max(0, ...excess.values()), margin }
}

function policyOf(limit) {
  return policySetOf(gcra({ limit, period: '1s', burst: limit }))
}

function nameOf(key) {
  return `key ${key}`
}
