/** Defects of refunds. The laws of `tests/engine/policy/refund_laws.rs` find each within a million steps. */

const MARK = 'src/policy/mark.rs'

export default {
  'a refund that does not move the units of other calls': [
    MARK,
    'mark.moved = mark.moved.min(MAX_SAFE);',
    'mark.moved = before.moved;',
  ],
  'a reset after which units of earlier calls come back': [MARK, 'fresh.invalidate(until);', 'let _ = until;'],
  'changed numbers after which units of earlier calls come back': [
    MARK,
    'if until > now && (repairs || (cost > 0 && outcome == Outcome::Admitted)) {',
    'if until > now && repairs {',
  ],
  'a mark that ends before the units of earlier calls': [
    MARK,
    'mark.last_until(until);\n            state.set_mark',
    'state.set_mark',
  ],
  'a reset time that is taken as exact': [
    'src/algorithm/rate/mod.rs',
    'let earliest = reported.saturating_sub(MICROS_PER_MILLI);',
    'let earliest = reported;',
  ],
  'a fixed window that keeps its end without the call that opened it': [
    'src/algorithm/fixed_window.rs',
    'let begins_anew = left == 0',
    'let begins_anew = left == 1 && left == 0',
  ],
  'a log that loses units of later calls': [
    'src/algorithm/sliding_log/log.rs',
    'let given = units.min(own_until.saturating_sub(from));',
    'let given = units.min(self.after().saturating_sub(from));',
  ],
}
