/** Defects of calls with an id. The oracle and the twins of the engine find each. */

const REPEATS = 'src/policy/execute/repeats.rs'
const SCRIPT = 'lua/executor/repeats.lua'

export default {
  'a repeated call is charged again': [
    REPEATS,
    'if let Some(executed) = repeat(policies, entries, now, call) {',
    'if let Some(executed) = repeat(policies, entries, now, call).filter(|_| !now.is_multiple_of(3)) {',
  ],
  'a refused call is remembered': [REPEATS, 'if executed.units > 0\n', 'if now > 0\n'],
  'an id that has ended is remembered': [REPEATS, 'if call.expires_at <= now {', 'if call.expires_at <= 0 {'],
  'the script forgets an id a second early': [
    SCRIPT,
    'local is_open = tonumber(found[2]) > context.now',
    'local is_open = tonumber(found[2]) > context.now + 1000000',
  ],
  'the script repeats the cost of the later call': [
    SCRIPT,
    'local details = string.sub(record, at, at + units_size - 1)',
    'local details = string.rep(struct.pack(">d", 1), units_size / 8)',
  ],
  'the script ignores the characters of an id': [
    SCRIPT,
    "return #member % 8 == 0 and member .. '\\0' or member",
    'return string.sub(member, 1, 1) .. string.rep("x", #member - 1)',
  ],
}
