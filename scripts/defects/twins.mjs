/** Fixed defects that make stores answer differently. `simulation/twins` finds each. */

export default {
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
    [
      'lua/executor/refunds.lua',
      'reset_at > context.now\n        and (executor.ends_on_milliseconds or reset_at - 1000 >= context.now)',
      'true',
    ],
    ['lua/rate/general.lua', 'if earliest < now then', 'if false then'],
  ],
  'a shorter window moves later in memory': [
    ['src/policy/execute/metadata.rs', 'if metadata.override_at(now).is_some() {', 'if false {'],
  ],
  'a settled log counts until it is dropped': [
    ['src/algorithm/sliding_log/mod.rs', 'log.reset_at() <= now && log.entries() > 0', 'false'],
  ],
  'a peek at a blocked log counts the call': [
    [
      'lua/sliding_log/general.lua',
      'local more = context.is_peek and counts_refused and not is_blocked and owed == 0 and cost or 0',
      'local more = context.is_peek and counts_refused and owed == 0 and cost or 0',
    ],
  ],
  "a retry beyond the end of a key's own numbers": [
    ['src/policy/multi_policy.rs', 'limit.retry_at.min(changes_at).max(until)', 'limit.retry_at.max(until)'],
  ],
  'a window that closes a millisecond late': [
    [
      'lua/fixed_window/bounds.lua',
      '(math.floor(now / 1000) + 1 - VALUE_EPOCH_MS)',
      '(math.floor(now / 1000) - VALUE_EPOCH_MS)',
    ],
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
