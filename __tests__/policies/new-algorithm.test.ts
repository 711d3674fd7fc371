/**
 * What a new algorithm takes: four files with its code, and the lines of `LINES`. They are added to a copy
 * of the sources, which is then built. The two stores and an oracle decide the same trace.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type * as tollgate from '../../ts/index.js'
import type { RedisStore } from '../../ts/index.js'
import { DrivenTime } from '../driven-redis.js'
import { Random } from '../random.js'
import { RedisServer } from '../servers/redis-server.js'

const ROOT = join(__dirname, '..', '..')

const NAME = 'cooldown'

/** The files of the algorithm, and their places. */
const FILES = {
  'cooldown.rs': `src/algorithm/${NAME}.rs`,
  'codec.rs': `src/redis/codec/${NAME}.rs`,
  'general.lua': `lua/${NAME}/general.lua`,
  'cooldown.ts.txt': `ts/policies/${NAME}.ts`,
}

/** By file: the lines after which a line is added, and the added ones. */
const LINES: Readonly<Record<string, readonly (readonly [after: string, added: string])[]>> = {
  // The names that Rust, Lua and TypeScript share.
  'scripts/protocol.mjs': [
    ["  ['CONCURRENCY', 'lua/concurrency/'],", "  ['COOLDOWN', 'lua/cooldown/'],"],
    ["  ['CONCURRENCY', 'con', 'CONCURRENCY', 'concurrency'],", "  ['COOLDOWN', 'cd', 'COOLDOWN', 'cooldown'],"],
  ],
  // The modules.
  'src/algorithm/mod.rs': [
    ['mod concurrency;', 'mod cooldown;'],
    ['pub use calendar_window::CalendarWindow;', 'pub use cooldown::Cooldown;'],
  ],
  'src/redis/codec/mod.rs': [['mod concurrency;', 'mod cooldown;']],
  // The list of algorithms, and the numbers of a policy.
  'src/policy/mod.rs': [
    ['            Concurrency: Permits,', '            Cooldown: Window,'],
    [
      '            Self::Concurrency(_) => policy_kind::CONCURRENCY,',
      '            Self::Cooldown(_) => policy_kind::COOLDOWN,',
    ],
    [
      '        Ok(match (kind, numbers) {',
      '            (policy_kind::COOLDOWN, &[limit, pause]) => Self::Cooldown(algorithm::Cooldown::new(limit, pause)?),',
    ],
  ],
  // The command line's summary of a stored value.
  'src/redis/codec/stored_value.rs': [
    [
      '            (Self::Text(value), ScriptAlgorithm::Concurrency) => (value, concurrency::summary),',
      '            (Self::Text(value), ScriptAlgorithm::Cooldown) => (value, super::cooldown::summary),',
    ],
  ],
  'lua/algorithms.lua': [
    ['--@include concurrency/general.lua', '--@include cooldown/general.lua'],
    ['  [ALGORITHM_CONCURRENCY] = concurrency,', '  [ALGORITHM_COOLDOWN] = cooldown,'],
  ],
  'ts/policies/policy.ts': [
    [
      "import { CONCURRENCY, type ConcurrencyPolicy } from './concurrency.js'",
      "import { COOLDOWN, type CooldownPolicy } from './cooldown.js'",
    ],
    ['  | ConcurrencyPolicy', '  | CooldownPolicy'],
    ['  concurrency: CONCURRENCY,', '  cooldown: COOLDOWN,'],
  ],
  'ts/policies/index.ts': [
    [
      "export { type ConcurrencyOptions, type ConcurrencyPolicy, concurrency } from './concurrency.js'",
      "export { type CooldownOptions, type CooldownPolicy, cooldown } from './cooldown.js'",
    ],
  ],
  'ts/policies/index.mts': [['  concurrency,', '  cooldown,']],
}

/** The folders and files that the addon and `dist/` are built from. */
const SOURCES = [
  ...['src', 'lua', 'ts', 'scripts', 'generated', 'tests/benches', 'tests/engine', '.cargo'],
  ...['Cargo.toml', 'Cargo.lock', 'scripts/build.rs', 'package.json'],
]

let folder: string

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-new-algorithm-'))
  const files = execFileSync(
    'git',
    ['ls-files', '-z', '--cached', '--others', '--exclude-standard', '--', ...SOURCES],
    { cwd: ROOT },
  )
    .toString()
    .split('\0')
  for (const file of files.filter((name) => name !== '' && existsSync(join(ROOT, name)))) {
    cpSync(join(ROOT, file), join(folder, file))
  }
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  for (const [file, place] of Object.entries(FILES)) {
    cpSync(join(__dirname, 'cooldown', file), join(folder, place))
  }
  for (const [file, lines] of Object.entries(LINES)) {
    const old = readFileSync(join(folder, file), 'utf8').split('\n')
    for (const [after, added] of lines) {
      expect(old.filter((line) => line === after)).toHaveLength(1)
      old.splice(old.indexOf(after) + 1, 0, added)
    }
    writeFileSync(join(folder, file), old.join('\n'))
  }
  // The crates that the engine needs are compiled once: the folder stays for the next run.
  const env = { ...process.env, CARGO_TARGET_DIR: join(ROOT, 'target', 'new-algorithm') }
  const run = (...words: string[]) => execFileSync(process.execPath, words, { cwd: folder, env, stdio: 'pipe' })
  run('scripts/protocol.mjs')
  run('scripts/build-native.mjs')
  run('scripts/bundle.mjs')
}, 1_200_000)

afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** The statuses of calls by the definition: one call, then a pause that ends on a whole millisecond. */
class Oracle {
  readonly #ends = new Map<string, number>()
  readonly #limit: number
  readonly #pause: number

  constructor(limit: number, pause: number) {
    this.#limit = limit
    this.#pause = pause
  }

  take(key: string, now: number, cost: number): { readonly status: string; readonly retryAfterMs: number | null } {
    const end = this.#ends.get(key) ?? 0
    if (cost > this.#limit) {
      return { status: 'impossible', retryAfterMs: null }
    }
    if (cost > 0 && end > now) {
      return { status: 'refused', retryAfterMs: end - now }
    }
    if (cost > 0) {
      this.#ends.set(key, now + this.#pause)
    }
    return { status: cost > 0 || end > now ? 'allowed-last' : 'allowed', retryAfterMs: 0 }
  }
}

test('the stores and an oracle decide a trace alike', async () => {
  const copy = require(join(folder, 'dist', 'index.js')) as typeof tollgate & {
    cooldown(options: { limit: number; pause: string }): tollgate.Policy
  }
  const server = await RedisServer.start({ timeUs: Date.UTC(2026, 5, 1) * 1_000 })
  const time = new DrivenTime(server)
  const shared = time.drive(new copy.RedisStore({ url: server.url, commandTimeout: 60_000 }) as RedisStore)
  try {
    const policy = copy.cooldown({ limit: 5, pause: '2s' })
    const embedded = new copy.RateLimiter(policy, { store: new copy.MemoryStore({ clock: time.now }) })
    const overRedis = new copy.RateLimiter(policy, { store: shared, prefix: 'toy' })
    const oracle = new Oracle(5, 2_000)
    const random = new Random(49)
    const counts: Record<string, number> = {}
    for (let step = 0; step < 300; step++) {
      await time.pass(random.one([0, 1, 500, 1_999, 2_000]))
      const key = random.one(['a', 'b'])
      const cost = random.whole(1, 6)
      const decision = await overRedis.take(key, cost)
      expect({ ...embedded.takeSync(key, cost), source: 'store' }).toEqual({ ...decision, source: 'store' })
      expect(decision).toMatchObject(oracle.take(key, time.now(), cost))
      counts[decision.status] = (counts[decision.status] ?? 0) + 1
    }
    expect(Object.keys(counts).sort()).toEqual(['allowed-last', 'impossible', 'refused'])
  } finally {
    await shared.close()
    await server.stop()
  }
})
