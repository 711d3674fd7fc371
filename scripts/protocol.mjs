/**
 * The numbers and tags that Rust, Lua and TypeScript share, and the generator of their constants.
 *
 *     node scripts/protocol.mjs [--check]
 *
 * Writes `src/protocol.rs` and `ts/backends/protocol.ts`. Lua files name a number by its table and
 * its name, such as `FORM_GENERAL`; `src/redis/script.rs` replaces these names when it composes the
 * scripts, so a name costs nothing at run time. With `--check` nothing is written: a file that
 * differs is an error.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))

/** The first form of a fast path for one policy; the form is this plus the algorithm's number. */
const SINGLE_POLICY = 16

/**
 * The algorithms of the script, in requests. Each has one layout of stored values.
 */
const SCRIPT_ALGORITHMS = [
  ['RATE', 'lua/rate/'],
  ['FIXED_WINDOW', 'lua/fixed_window/'],
  ['SLIDING_COUNTER', 'lua/sliding_counter/'],
  ['TOKEN_BUCKET_INTERVAL', 'lua/token_bucket_interval/'],
  ['SLIDING_WINDOW_LIST', 'lua/sliding_window/list.lua'],
  ['SLIDING_WINDOW_HASH', 'lua/sliding_window/hash.lua'],
  ['SLIDING_LOG', 'lua/sliding_log/general.lua'],
  ['CONCURRENCY', 'lua/concurrency/'],
]

/**
 * The kinds of policies: an algorithm with a layout of its states. Each has its tag in the names of
 * keys, the algorithm of the script, and its function and layout in TypeScript.
 */
const POLICY_KINDS = [
  ['GCRA', 'gcra', 'RATE', 'gcra'],
  ['TOKEN_BUCKET', 'tb', 'RATE', 'tokenBucket'],
  ['LEAKY_BUCKET', 'lb', 'RATE', 'leakyBucket'],
  ['TOKEN_BUCKET_INTERVAL', 'tbi', 'TOKEN_BUCKET_INTERVAL', 'tokenBucket', 'interval'],
  ['FIXED_WINDOW', 'fw', 'FIXED_WINDOW', 'fixedWindow'],
  ['CALENDAR_WINDOW', 'cw', 'FIXED_WINDOW', 'calendarWindow'],
  ['SLIDING_COUNTER', 'sc', 'SLIDING_COUNTER', 'slidingCounter'],
  ['SLIDING_WINDOW_LIST', 'swl', 'SLIDING_WINDOW_LIST', 'slidingWindow', 'list'],
  ['SLIDING_WINDOW_HASH', 'swh', 'SLIDING_WINDOW_HASH', 'slidingWindow', 'hash'],
  ['SLIDING_LOG', 'sl', 'SLIDING_LOG', 'slidingLog'],
  ['SLIDING_LOGS', 'sls', 'SLIDING_LOG', 'slidingLog', 'limits'],
  ['CONCURRENCY', 'con', 'CONCURRENCY', 'concurrency'],
]

/**
 * The tables of numbers. A number may have a comment for Rust. `type` is the type in Rust; `ts` is the
 * name in TypeScript, if it needs the table; `lua` tells whether Lua needs it.
 */
const TABLES = [
  {
    name: 'operation',
    comment: 'Operations, in calls from JavaScript and in requests to the script.',
    type: 'u8',
    ts: 'OPERATION_CODES',
    lua: true,
    numbers: [
      'TAKE',
      'TAKE_UP_TO',
      'PENALIZE',
      'REFUND',
      'RESET',
      'BLOCK',
      'UNBLOCK',
      'OVERRIDE',
      'CLEAR_OVERRIDE',
      'RESERVE',
      'SETTLE',
      'SCHEDULE',
      'CANCEL_SCHEDULED',
      // The script has no code for a peek: it is a take in a script call that writes nothing.
      'PEEK',
      'EXTEND',
      'RENEW',
      'ACQUIRE',
      'RELEASE',
      'RENEW_PERMIT',
    ]
      .map((name, index) => [name, index + 1])
      .concat([
        ['METERED', 64, 'Added to an operation whose units are by policy.'],
        ['REPEATABLE', 128, 'Added to an operation with the id of a call, which gets the first decision again.'],
      ]),
  },
  {
    name: 'status',
    comment: 'The statuses of decisions, in responses to JavaScript. Failures have negative codes.',
    type: 'i32',
    ts: 'STATUS_CODES',
    numbers: ['ALLOWED', 'ALLOWED_LAST', 'REFUSED', 'IMPOSSIBLE', 'BLOCKED'].map((name, index) => [name, index]),
  },
  {
    name: 'failure',
    comment: 'The reasons for which there is no decision, in responses to JavaScript.',
    type: 'i32',
    ts: 'FAILURE_CODES',
    numbers: [
      'NOT_A_STRING',
      'EMPTY_KEY',
      'KEY_TOO_LONG',
      'ILL_FORMED_KEY',
      'PANICKED',
      'UNAVAILABLE',
      'BROKEN',
      'TIMED_OUT',
      'REFUSED',
      'CLOSED',
      'MALFORMED',
      'SHARED_BUCKET',
      'NO_CAPACITY',
      'TOO_MANY_HOLDS',
    ].map((name, index) => [name, -(index + 1)]),
  },
  {
    name: 'policy_kind',
    comment: 'The kinds of policies, in calls from JavaScript.',
    type: 'u32',
    numbers: POLICY_KINDS.map(([name], index) => [name, index]),
  },
  {
    name: 'form',
    comment: 'The forms of a group of calls, in requests to the script.',
    type: 'u8',
    lua: true,
    numbers: [
      ['GENERAL', 0, 'Any calls.'],
      ['WITH_HOLDS', 1, 'Any calls, some of them about holds.'],
      ['MULTI_POLICY', 2, 'One take on each key of several policies that all have a fast path.'],
      ['MULTI_POLICY_OPTIMISTIC', 3, 'The same for calls of one unit that should mostly be hits.'],
      ['WINDOW_OPTIMISTIC', 4, 'One unit on each key of a fixed window, for calls that should mostly be hits.'],
      ['MULTI_POLICY_METERED', 7, 'The same for calls that take a number of units by policy.'],
      ['PERMITS', 6, 'Calls of acquire, release and renew on one key of one policy.'],
      ['BAN', 5, 'The rule for bans, before the form of a group to which it applies.'],
      ['SINGLE_POLICY', SINGLE_POLICY, 'Plus the number of an algorithm: one take on each key of one policy.'],
      ['WITH_COSTS', 64, "Added to a fast path's form if some calls do not take exactly one unit."],
    ],
  },
  {
    name: 'outcome',
    comment: 'The outcomes of calls, in replies of the script.',
    type: 'u8',
    lua: true,
    numbers: [
      ['ADMITTED', 0],
      ['REFUSED', 1],
      ['IMPOSSIBLE', 2],
      ['UNREADABLE', 3, 'The key has a value that no limiter wrote.'],
      ['UNWRITTEN', 4, 'Redis refused to write the key; the reply has its error.'],
      ['STALE', 5, "The request is for another time; the client sends it again for the server's time."],
      ['TOO_MANY_HOLDS', 6, 'The key has the most holds and ids of calls that it may have.'],
      ['OTHER_NUMBERS', 8, "Added if the numbers of the state differ from the policy's."],
      ['OVERRIDDEN', 16, 'Added if an override decided the call.'],
      ['BLOCKED', 32, 'Added while the key is blocked.'],
      ['OWED', 64, 'Added while the key owes units.'],
      ['MARKED', 128, 'Added if the call is admitted on a key with a mark.'],
    ],
  },
  {
    name: 'hold',
    comment: 'Holds of reservations.',
    type: 'u64',
    lua: true,
    ts: 'HOLD_TIMES',
    numbers: [['LATE', 3_600_000_000, 'The microseconds after its end in which a hold can still be settled.']],
  },
  {
    name: 'value',
    comment: 'The layouts of stored values.',
    type: 'u64',
    lua: true,
    numbers: [
      ['EPOCH_MS', 1_577_836_800_000, '2020. A packed window is `(end - EPOCH_MS) * COUNTS + count`, in milliseconds.'],
      ['COUNTS', 8_192, 'The number of counts that a packed window can have.'],
      ['ELEMENT_SIZE', 34, "The bytes of a sliding window's list element: four doubles and a short."],
      ['METADATA_MIN_SIZE', 69, 'The least bytes of key metadata: more than a state has after its first 40.'],
    ],
  },
]

for (const { name, numbers } of TABLES) {
  if (new Set(numbers.map(([, number]) => number)).size < numbers.length) {
    throw new Error(`two names of ${name} have the same number`)
  }
}

const HEAD = 'Generated by `node scripts/protocol.mjs`: the numbers that Rust, Lua and TypeScript share.'

/** The files that `lua/limiter.lua` includes, itself among them. */
function limiterFiles() {
  const others = ['policies.lua', 'dispatch/text_decode.lua', 'dispatch/text_encode.lua']
  const files = readdirSync(join(ROOT, 'lua'), { recursive: true }).map((file) => file.replaceAll('\\', '/'))
  return files.filter((file) => file.endsWith('.lua') && !others.includes(file)).sort()
}

/** A name such as `SLIDING_LOG` as `SlidingLog`. */
function pascal(name) {
  return name.toLowerCase().replace(/(?:^|_)(\w)/g, (_, letter) => letter.toUpperCase())
}

/** The algorithms of the script, and the kinds of policies, in Rust. */
function rustKinds() {
  const variants = SCRIPT_ALGORITHMS.map(
    ([name, place], index) => `    /// \`${place}\`\n    ${pascal(name)} = ${index + 1},\n`,
  )
  const kinds = POLICY_KINDS.map(([, tag, algorithm]) => `    ("${tag}", ScriptAlgorithm::${pascal(algorithm)}),\n`)
  return [
    `/// The algorithms of the script, in requests. Each has one layout of stored values.\n`,
    `#[derive(Debug, Clone, Copy, PartialEq, Eq)]\n#[repr(u8)]\npub enum ScriptAlgorithm {\n${variants.join('')}}\n\n`,
    `/// The tags of the kinds of policies in the names of keys, and the algorithms of the script.\n`,
    `pub const POLICY_KINDS: [(&str, ScriptAlgorithm); ${kinds.length}] = [\n${kinds.join('')}];\n`,
  ].join('')
}

function rust() {
  const modules = TABLES.map(({ name, comment, type, numbers }) => {
    const constants = numbers.map(([constant, number, meaning]) => {
      const doc = meaning === undefined ? '' : `    /// ${meaning}\n`
      return `${doc}    pub(crate) const ${constant}: ${type} = ${number.toLocaleString('en').replaceAll(',', '_')};\n`
    })
    return `/// ${comment}\npub(crate) mod ${name} {\n${constants.join('')}}\n`
  })
  const algorithms = SCRIPT_ALGORITHMS.map(([name], index) => [name, index + 1])
  const tables = [{ name: 'algorithm', lua: true, numbers: algorithms }, ...TABLES]
  const names = tables
    .filter(({ lua }) => lua)
    .flatMap(({ name, numbers }) =>
      numbers.map(([constant, number]) => `    ("${name.toUpperCase()}_${constant}", "${number}"),\n`),
    )
  const lua = `/// The names that Lua files use, and their numbers.\npub(crate) const LUA_NAMES: &[(&str, &str)] = &[\n${names.join('')}];\n`
  const file = (name) => `    ("${name}", lua!("${name}")),\n`
  const files = `/// The files of the limiter script, by name.\npub(crate) const LUA_FILES: &[(&str, &str)] = &[\n${limiterFiles().map(file).join('')}];\n`
  return `//! ${HEAD}\n\n${[...modules, rustKinds(), lua, files].join('\n')}`
}

function typescript() {
  const camel = (name) => name.toLowerCase().replace(/_(\w)/g, (_, letter) => letter.toUpperCase())
  const tables = TABLES.filter(({ ts }) => ts).map(({ ts, comment, numbers }) => {
    const entries = numbers.map(([constant, number]) => `  ${camel(constant)}: ${number},\n`)
    return `/** ${comment} */\nexport const ${ts} = {\n${entries.join('')}} as const\n`
  })
  const kinds = POLICY_KINDS.map(([name, tag, , algorithm, layout], kind) => {
    const own = layout === undefined ? '' : `, layout: '${layout}'`
    return `  ${camel(name)}: { kind: ${kind}, tag: '${tag}', algorithm: '${algorithm}'${own} },\n`
  })
  const kindTable = `/** The kinds of policies: an algorithm with a layout of its states, and its tag in the names of keys. */\nexport const POLICY_KINDS = {\n${kinds.join('')}} as const\n`
  return `// ${HEAD}\n\n${[...tables, kindTable].join('\n')}`
}

for (const [file, text] of Object.entries({ 'src/protocol.rs': rust(), 'ts/backends/protocol.ts': typescript() })) {
  if (!process.argv.includes('--check')) {
    writeFileSync(join(ROOT, file), text)
  } else if (readFileSync(join(ROOT, file), 'utf8') !== text) {
    throw new Error(`${file} is not current: run node scripts/protocol.mjs`)
  }
}
