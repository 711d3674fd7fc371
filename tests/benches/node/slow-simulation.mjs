/**
 * A slow reference for `tollgate-cli simulate --key ip`, without the engine: it parses each line by
 * regular expressions, keeps all requests in one array, and has times in microseconds as BigInt.
 *
 *     node tests/benches/node/slow-simulation.mjs LOG REPORT
 *
 * REPORT is the `--format json` report of LOG. Prints each difference and exits with 1, or prints a
 * summary.
 */
import { createReadStream, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

const COMBINED = /^(\S+) \S+ \S+ \[(\d\d)\/(\w{3})\/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)\] "[^"]*" [\d-]/
const MONTHS = 'JanFebMarAprMayJunJulAugSepOctNovDec'

/** A line's time in epoch milliseconds and its address; `undefined` if it is broken. */
function read(line) {
  if (line.startsWith('{')) {
    try {
      const { time, remote_addr } = JSON.parse(line)
      return { time: Date.parse(time), ip: remote_addr }
    } catch {
      return undefined
    }
  }
  const match = COMBINED.exec(line)
  if (match === null) {
    return undefined
  }
  const [, ip, day, name, year, hour, minute, second, sign, zoneHours, zoneMinutes] = match
  const month = MONTHS.indexOf(name) / 3
  const date = Date.UTC(year, month, day, hour, minute, second)
  const isDate = new Date(Date.UTC(year, month, day)).getUTCMonth() === month
  const zone = (Number(zoneHours) * 60 + Number(zoneMinutes)) * 60_000 * (sign === '-' ? -1 : 1)
  return isDate ? { time: date - zone, ip } : undefined
}

/** The first 56 bits of an IPv6 address, as digits; other addresses unchanged. */
function network(ip) {
  if (!ip.includes(':')) {
    return ip
  }
  const [head, tail] = ip.replace(/\/56$/, '').split('::')
  const groups = (text) => (text ? text.split(':') : [])
  const [front, back] = [groups(head), groups(tail)]
  const all = [...front, ...Array(8 - front.length - back.length).fill('0'), ...back]
  const bits = all.reduce((number, group) => (number << 16n) | BigInt(`0x${group}`), 0n)
  return `v6 ${(bits >> 72n).toString(16)}`
}

/** Algorithms for one key, created from their numbers. They decide at times in microseconds. */
const ALGORITHMS = {
  gcra({ limit, period, burst }) {
    // All times are in 1/`limit` of a microsecond, so an interval is a whole number.
    const interval = BigInt(period) * 1_000n
    let arrival = 0n
    return (now) => {
      const scaled = now * BigInt(limit)
      const next = (arrival > scaled ? arrival : scaled) + interval
      const isAdmitted = next - scaled <= interval * BigInt(burst)
      arrival = isAdmitted ? next : arrival
      return isAdmitted
    }
  },
  fixedWindow({ limit, window }) {
    let end = 0n
    let count = 0
    return (now) => {
      if (now >= end) {
        end = now + BigInt(window) * 1_000n
        count = 0
      }
      return count < limit && ++count > 0
    }
  },
  slidingLog({ limit, window }) {
    const admitted = []
    return (now) => {
      while (admitted.length > 0 && admitted[0] + BigInt(window) * 1_000n <= now) {
        admitted.shift()
      }
      return admitted.length < limit && admitted.push(now) > 0
    }
  },
}

/** All requests in the order of their decisions, and the counts of lines. */
async function requestsOf(file, windowMs) {
  const requests = []
  const networks = new Map()
  const found = { lines: 0, broken: [], disordered: 0, late: 0 }
  let newest = Number.NEGATIVE_INFINITY
  let number = 0
  for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Number.POSITIVE_INFINITY })) {
    number++
    if (line === '') {
      continue
    }
    found.lines++
    const request = read(line)
    if (request === undefined) {
      found.broken.push(number)
      continue
    }
    const { time, ip } = request
    newest = Math.max(newest, time)
    found.disordered += time < newest ? 1 : 0
    found.late += time < newest - windowMs ? 1 : 0
    if (!networks.has(ip)) {
      networks.set(ip, network(ip))
    }
    requests.push({ time: Math.max(time, newest - windowMs), key: networks.get(ip) })
  }
  return { requests: requests.sort((a, b) => a.time - b.time), found }
}

/** Refusals by key. */
function refusalsOf(requests, policy) {
  const judges = new Map()
  const refusals = new Map()
  for (const { time, key } of requests) {
    if (!judges.has(key)) {
      judges.set(key, ALGORITHMS[policy.algorithm](policy))
    }
    if (judges.get(key)(BigInt(time) * 1_000n)) {
      continue
    }
    if (!refusals.has(key)) {
      refusals.set(key, { refused: 0, first: time, last: time, minutes: new Map() })
    }
    const own = refusals.get(key)
    const minute = Math.floor(time / 60_000) * 60_000
    own.refused++
    own.last = time
    own.minutes.set(minute, (own.minutes.get(minute) ?? 0) + 1)
  }
  return refusals
}

/** All differences, as sentences. */
function differences(report, requests, found) {
  const said = []
  const same = (what, told, right) => {
    if (JSON.stringify(told) !== JSON.stringify(right)) {
      said.push(`${what}: ${JSON.stringify(told)} was told, ${JSON.stringify(right)} is right`)
    }
  }
  same('lines', report.lines, found.lines)
  same('requests', report.requests, requests.length)
  same('broken lines', report.broken.lines, found.broken.length)
  const firstBroken = report.broken.first.map(({ line }) => line)
  same('the first broken lines', firstBroken, found.broken.slice(0, firstBroken.length))
  same('out of order', report.order.disordered, found.disordered)
  same('late', report.order.late, found.late)
  for (const { name, policy, refused, refusedKeys, keys } of report.policies) {
    const refusals = refusalsOf(requests, policy)
    const all = [...refusals.values()].reduce((sum, own) => sum + own.refused, 0)
    same(`${name}: refused`, refused, all)
    same(`${name}: refused keys`, refusedKeys, refusals.size)
    same(`${name}: keys that are named`, keys.length, refusals.size)
    for (const { key, refused, first, last, worstMinute } of keys) {
      const own = refusals.get(network(key))
      const worst = Math.max(...(own?.minutes.values() ?? [0]))
      same(`${name}: ${key}`, [refused, first, last], [own?.refused, own?.first, own?.last])
      same(`${name}: ${key}, worst minute`, [worstMinute.refused, own?.minutes.get(worstMinute.at)], [worst, worst])
    }
  }
  return said
}

const [log, told] = process.argv.slice(2)
const report = JSON.parse(readFileSync(told, 'utf8'))
const { requests, found } = await requestsOf(log, report.order.windowMs)
const said = differences(report, requests, found)
if (said.length > 0) {
  console.error(said.slice(0, 20).join('\n'))
  process.exitCode = 1
} else {
  const refused = report.policies.map(({ name, refused, refusedKeys }) => `${name}: ${refused} of ${refusedKeys} keys`)
  console.log(`equal: ${requests.length} requests; refused by ${refused.join('; ')}`)
}
