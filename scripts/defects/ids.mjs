/** Defects of calls with an id. The oracles and the twins of the engine find each. */

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
  'a repeated call for a permit that has ended is charged again': [
    REPEATS,
    'let cost = policies.only_permits(units);',
    'let cost = units.clone();',
  ],
  'a repeated call gets a permit of its own': [
    REPEATS,
    '    permits::rename(entries, now, (request.id, permit));\n',
    '',
  ],
  'the script repeats a permit without its renewal': [
    SCRIPT,
    'held = held + (permits.renew(key, permit) and 1 or 0)',
    'held = held + 1',
  ],
  'the script repeats a permit without its hold': [
    SCRIPT,
    'local ends_at, hold_units = holds.find(hold_key, id)',
    'local ends_at, hold_units = nil, nil',
  ],
  'the script forgets an id a second early': [
    SCRIPT,
    '= expires_at > context.now,',
    '= expires_at > context.now + 1000000,',
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
