/**
 * Puts a defect into each decoder, and checks that its fuzz target finds it, from its corpus or within a minute.
 *
 *     node fuzz/mutations.mjs [TARGET]...
 *
 * It edits the sources in place and restores them. They must be unchanged since the last commit.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))

/** The time that a target gets. */
const SECONDS = '60'

/** The target, the defect, the file, the current text, and the defective text. */
// biome-ignore-start lint/suspicious/noTemplateCurlyInString: sources of other files
const MUTATIONS = [
  [
    'resp',
    'a slot outside the cluster',
    'src/redis/cluster/slot_map.rs',
    'map.owners.get_mut(first..=last)?.fill(owner);',
    'map.owners[first..=last].fill(owner);',
  ],
  [
    'script_reply',
    'a state that no rate has',
    'src/redis/batch/response_decoder.rs',
    'befores.push(RateState::from_numbers(&before).ok_or(CallError::Malformed)?);',
    'befores.push(RateState::from_numbers(&before).expect("a state"));',
  ],
  [
    'stored_value',
    'a wrong length',
    'src/redis/codec/metadata.rs',
    'value.len().checked_sub(size)?',
    'value.len() - size',
  ],
  ['key_name', 'a swapped escape', 'src/redis/inspect/stored_name.rs', `"%7D" => '}',`, `"%7D" => '{',`],
  [
    'wasm_boundary',
    'a length that is trusted',
    'src/wasm/scratch.rs',
    'str::from_utf8(text.get(..length)?).ok()',
    'str::from_utf8(&text[..length]).ok()',
  ],
  [
    'differential',
    'the scripts drop a field: the ban',
    'src/redis/codec/reply.rs',
    'let ban_step = match code & outcome::BANNED {\n            0 => 0,\n            _ => self.extra(&mut [0], 1)?[0],\n        };',
    'let ban_step = match code & outcome::BANNED {\n            0 => 0,\n            _ => self.extra(&mut [0], 1)?[0] & 1,\n        };',
  ],
  [
    'differential',
    'a script that loses a part of a microsecond',
    'lua/rate/take.lua',
    'if part >= units then',
    'if part > units then',
  ],
  [
    'differential',
    'an extension that forgets its units',
    'src/policy/execute/holds.rs',
    'hold.units = hold.units.saturating_add(cost).min(MAX_SAFE);',
    'hold.units = hold.units.max(cost).min(MAX_SAFE);',
  ],
  [
    'differential',
    'the module answers another number',
    'src/abi/response.rs',
    '[double(ban.step), double(whole_millis(ban.until))]',
    '[double(ban.step), double(whole_millis(ban.until) & !1)]',
  ],
  [
    'url',
    'the password in a message',
    'ts/backends/redis/url.ts',
    "throw urlError('must have no fragment (#…)')",
    'throw urlError(`must have no fragment: ${url.href}`)',
  ],
  [
    'policy-text',
    'a dropped field',
    'ts/input/policy-text.ts',
    'if (value === undefined) {',
    "if (value === undefined || name === 'debt') {",
  ],
  ['duration', 'a duration of no time', 'ts/input/duration.ts', '!(millis > 0) ||', ''],
  [
    'log-line',
    'a line without a time',
    'ts/cli/simulate/log/line.ts',
    'return this.time >= 0 || this',
    'return !(this.time < 0) || this',
  ],
  [
    'log-key',
    'an invalid expression',
    'ts/cli/simulate/log/key.ts',
    'throw usageError(`--key: ${(error as Error).message}`)',
    'throw error',
  ],
  [
    'answer',
    'a delay without an end',
    'ts/client/answer.ts',
    'return Math.min(Math.ceil(delayMs), MAX_DELAY_MS)',
    'return Math.ceil(delayMs)',
  ],
  [
    'ip-key',
    'nine groups',
    'ts/middleware/shared/ip-key.ts',
    'isWhole ? missing !== 0 : missing < 1',
    'isWhole ? missing > 0 : missing < 1',
  ],
]
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: sources of other files

if (execFileSync('git', ['status', '--porcelain', 'src', 'lua', 'ts'], { cwd: ROOT, encoding: 'utf8' }) !== '') {
  throw new Error('src, lua or ts have changes that are not committed')
}
const requested = process.argv.slice(2)
const chosen = MUTATIONS.filter(([target]) => requested.length === 0 || requested.includes(target))
let missed = 0
for (const [target, title, file, text, other] of chosen) {
  const finding = findingOf(target, file, text, other)
  missed += finding === undefined ? 1 : 0
  console.log(
    `${finding === undefined ? 'MISSED' : 'found '}  ${target}: ${title}${finding === undefined ? '' : `: ${finding.slice(0, 160)}`}`,
  )
}
console.log(`${chosen.length - missed} of ${chosen.length} found`)
process.exitCode = missed > 0 ? 1 : 0

/** The first line about the failure that a target finds in the mutated sources. */
function findingOf(target, file, text, other) {
  const path = join(ROOT, file)
  const source = readFileSync(path, 'utf8')
  if (text === '' || !source.includes(text)) {
    throw new Error(`${file} has no ${text}`)
  }
  try {
    writeFileSync(
      path,
      source.replace(text, () => other),
    )
    const words = [join(ROOT, 'scripts', 'fuzz.mjs'), target, '--replay', '--seconds', SECONDS]
    const { status, stdout, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8', maxBuffer: 1 << 30 })
    const finding = /^(?:thread .* panicked at .*\n.*|.*: an input fails: .*)$/m.exec(stderr)?.[0]
    if (status !== 0 && finding === undefined) {
      throw new Error(`${stdout}${stderr}`)
    }
    return finding?.replace('\n', ' ')
  } finally {
    writeFileSync(path, source)
  }
}
