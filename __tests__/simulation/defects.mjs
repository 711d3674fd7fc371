/**
 * Reintroduces fixed defects one by one, and checks that the simulation finds each.
 *
 *     node __tests__/simulation/defects.mjs [NAME]...
 *
 * It edits the sources in place and restores them. They must be unchanged since the last commit.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))))

/** The maximum operations of each seed. */
const OPERATIONS = '150000'

/** The seeds, tried in turn until one finds the defect. */
const SEEDS = ['7', '1000']

/** By name: the files, the current text in each, and the defective text. */
const DEFECTS = {
  'TTLs by the numbers that write: rates': [
    [
      'lua/rate/general.lua',
      'local step = other and math.max(time_of(other.burst, other.q, other.r, other.units), MIN_TTL_STEP) or ttl_step',
      'local step = ttl_step',
    ],
  ],
  'TTLs by the numbers that write: buckets': [
    [
      'lua/token_bucket_interval/general.lua',
      'local step = other and math.max(refills_for(other.most, other.tokens) * other.every, MIN_TTL_STEP) or ttl_step',
      'local step = ttl_step',
    ],
  ],
  'a stale calendar is not recognised beside flags': [
    [
      'src/redis/codec/reply.rs',
      'is_some_and(|code| code % outcome::OTHER_NUMBERS == outcome::STALE)',
      'is_some_and(|code| *code == outcome::STALE)',
    ],
  ],
  'rounds of a client are sent again in any order': [
    [
      'ts/wasm/redis/flush-transport.ts',
      'const isHalted = this.#pending.some(({ sent }) => sent.blocksOthers)',
      `for (const one of this.#pending) if (one.sent.state === 'retry') void this.#send(one)
    const isHalted = false`,
    ],
  ],
  'refunds of units that have drained': [
    ['src/policy/mod.rs', 'if taken.reset_at <= now {', 'if taken.reset_at == 1 {'],
    [
      'src/algorithm/rate/mod.rs',
      'numbers.used(state.arrival, now).min(numbers.used(drained_at, now))',
      'numbers.used(state.arrival, now)',
    ],
    ['src/algorithm/rate/mod.rs', '.min(Arrival::at(drained_at.micros - now))', ''],
    ['src/algorithm/rate/mod.rs', 'state.awaits_slot(now) || drained_at <= Arrival::at(now)', 'state.awaits_slot(now)'],
    ['lua/executor/operations.lua', ' and reset_at > context.now then', ' then'],
    [
      'lua/rate/general.lua',
      'if drained_at <= now or (other and other.booked_until > now) then',
      'if other and other.booked_until > now then',
    ],
    [
      'lua/rate/general.lua',
      'math.min(units_used(m, part, written_with, now), units_used(drained_at, 0, written_with, now))',
      'units_used(m, part, written_with, now)',
    ],
    ['lua/rate/general.lua', 'if refunded_micros >= drained_at - now then', 'if false then'],
  ],
  'a shorter window moves later in memory': [
    [
      'src/policy/execute/mod.rs',
      `override_until(&mut entries, policies, end_of(now, *lasting));
            entries.iter_mut().for_each(|entry| entry.repair(now));`,
      'override_until(&mut entries, policies, end_of(now, *lasting));',
    ],
  ],
  'a settled log counts until it is dropped': [
    ['src/algorithm/sliding_log/mod.rs', 'log.reset_at() <= now && log.entries() > 0', 'false'],
  ],
  'a peek at a blocked log counts the call': [
    [
      'lua/sliding_log.lua',
      'if context.is_peek and counts_refused and not (metadata and metadata.blocked_until > context.now) then',
      'if context.is_peek and counts_refused then',
    ],
  ],
  "a retry beyond the end of a key's own numbers": [
    ['src/policy/multi_policy.rs', 'limit.retry_at.min(changes_at).max(until)', 'limit.retry_at.max(until)'],
  ],
  'a shorter window is full': [
    ['lua/fixed_window/general.lua', 'window_end = new_end\n', 'window_end, count = new_end, math.max(count, limit)\n'],
  ],
  'a block forgets what a shorter window does not count': [
    [
      'lua/sliding_window/list.lua',
      'if window.added[key] == 0 and not window.rebased[key] and window.old_newest[key] > 0 then',
      'if false then',
    ],
  ],
}

if (execFileSync('git', ['status', '--porcelain', 'src', 'lua', 'ts'], { cwd: ROOT, encoding: 'utf8' }) !== '') {
  throw new Error('src, lua or ts have changes that are not committed')
}
const requested = process.argv.slice(2)
const names = requested.length > 0 ? requested : Object.keys(DEFECTS)
let missed = 0
for (const name of names) {
  const found = findingOf(DEFECTS[name] ?? fail(`no defect is named ${JSON.stringify(name)}`))
  missed += found === undefined ? 1 : 0
  console.log(
    `${found === undefined ? 'MISSED' : 'found '}  ${name}${found === undefined ? '' : `: ${found.slice(0, 160)}`}`,
  )
}
console.log(`${names.length - missed} of ${names.length} found`)
process.exitCode = missed > 0 ? 1 : 0

/** The simulation's error for sources with a defect. */
function findingOf(changes) {
  const before = new Map()
  try {
    for (const [file, text, other] of changes) {
      const path = join(ROOT, file)
      const source = readFileSync(path, 'utf8')
      before.set(path, before.get(path) ?? source)
      writeFileSync(path, source.includes(text) ? source.replace(text, () => other) : fail(`${file} has no ${text}`))
    }
    for (const seed of SEEDS) {
      const env = { ...process.env, TOLLGATE_SIMULATED: OPERATIONS, TOLLGATE_SEED: seed }
      const args = ['scripts/jest.mjs', 'simulation/twins']
      const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: ROOT, env, encoding: 'utf8' })
      const output = `${stdout}${stderr}`
      const finding = /^ *scenario \d+ of .*?, seed \d+: (.*)$/m.exec(output)?.[1]
      if (status !== 0 && finding === undefined) {
        throw new Error(output)
      }
      if (finding !== undefined) {
        return finding
      }
    }
    return undefined
  } finally {
    for (const [path, source] of before) {
      writeFileSync(path, source)
    }
  }
}

function fail(reason) {
  throw new Error(reason)
}
