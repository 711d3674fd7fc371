/** Laps over given keys, by kind of call, for parts whose keys or limiters vary. */

/** Holds the last result, so that the compiler cannot optimise it away. */
const sink = { last: undefined }

/**
 * Loop bodies, by kind of call. They use `limiter` and `key`, and count allowed calls.
 */
const CALLS = {
  takeSync: 'sink.last = limiter.takeSync(key); if (sink.last.allowed) allowed++',
  take: 'sink.last = await limiter.take(key); if (sink.last.allowed) allowed++',
  'map take': 'sink.last = limiter.take(key); if (sink.last.allowed) allowed++',
  // A refusal would be a rejection.
  consume: 'sink.last = await limiter.consume(key); if (sink.last.remainingPoints >= 0) allowed++',
  union: 'sink.last = await limiter.consume(key); allowed++',
}

const AWAITED = ['take', 'consume', 'union']

/**
 * A contender for `timeLaps`, with its own loop: in a shared loop V8 would inline no call.
 *
 * @param {keyof typeof CALLS} call
 * @param {{ close?: () => unknown }} limiter
 * @param {readonly string[]} keys Visited round robin.
 */
export function lapsOf(call, limiter, keys) {
  const awaited = AWAITED.includes(call)
  const lap = `return ${awaited ? 'async ' : ''}() => {
    let allowed = 0
    for (const key of keys) {
      ${CALLS[call]}
    }
    return allowed
  }`
  return {
    awaited,
    calls: keys.length,
    lap: new Function('limiter', 'keys', 'sink', lap)(limiter, keys, sink),
    close: () => limiter.close?.(),
  }
}
