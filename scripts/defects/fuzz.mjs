/** Defects of decoders, by fuzz target. The target finds each, from its corpus or within a minute. */

// biome-ignore-start lint/suspicious/noTemplateCurlyInString: sources of other files
export default {
  'resp: a slot outside the cluster': [
    'src/redis/cluster/slot_map.rs',
    'map.owners.get_mut(first..=last)?.fill(owner);',
    'map.owners[first..=last].fill(owner);',
  ],
  'script_reply: a state that no rate has': [
    'src/redis/batch/response_decoder.rs',
    'befores.push(RateState::from_numbers(&before).ok_or(CallError::Malformed)?);',
    'befores.push(RateState::from_numbers(&before).expect("a state"));',
  ],
  'stored_value: a wrong length': [
    'src/redis/codec/metadata.rs',
    'value.len().checked_sub(size)?',
    'value.len() - size',
  ],
  'key_name: a swapped escape': ['src/redis/inspect/stored_name.rs', `"%7D" => '}',`, `"%7D" => '{',`],
  'wasm_boundary: a length that is trusted': [
    'src/wasm/scratch.rs',
    'str::from_utf8(text.get(..length)?).ok()',
    'str::from_utf8(&text[..length]).ok()',
  ],
  'differential: the end of a block loses a bit': [
    'src/redis/codec/reply.rs',
    'let [blocked_until, ban_step] = block;',
    'let [blocked_until, ban_step] = [block[0] & !1, block[1]];',
  ],
  'differential: a script that loses a part of a microsecond': [
    'lua/rate/take.lua',
    'if part >= units then',
    'if part > units then',
  ],
  'differential: an extension that forgets its units': [
    'src/policy/execute/holds.rs',
    'hold.units = hold.units.plus(cost);',
    'hold.units = cost.clone();',
  ],
  'differential: the module answers another number': [
    'src/abi/response.rs',
    '[ban_step, whole_millis(until)]',
    '[ban_step, whole_millis(until) & !1]',
  ],
  'url: the password in a message': [
    'ts/backends/redis/url.ts',
    "throw urlError('must have no fragment (#…); a # in a password is %23')",
    'throw urlError(`must have no fragment: ${url.href}`)',
  ],
  'policy-text: a dropped field': [
    'ts/input/policy-text.ts',
    'if (value === undefined) {',
    "if (value === undefined || name === 'debt') {",
  ],
  'duration: a duration of no time': ['ts/input/duration.ts', '!(millis > 0) ||', ''],
  'log-line: a line without a time': [
    'ts/cli/simulate/log/line.ts',
    'return this.time >= 0 || this',
    'return !(this.time < 0) || this',
  ],
  'log-key: an invalid expression': [
    'ts/cli/simulate/log/key.ts',
    'throw usageError(`--key: ${(error as Error).message}`)',
    'throw error',
  ],
  'answer: a delay without an end': [
    'ts/client/server-times.ts',
    'millis > 0 ? Math.min(Math.ceil(millis), MAX_DELAY_MS)',
    'millis > 0 ? Math.ceil(millis)',
  ],
  'ip-key: nine groups': [
    'ts/middleware/shared/ip-address.ts',
    'isWhole ? missing !== 0 : missing < 1',
    'isWhole ? missing > 0 : missing < 1',
  ],
}
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: sources of other files
