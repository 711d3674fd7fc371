/** Laps over given keys, by what is called: for parts whose keys or limiters vary. */

/** Where the last result is kept: making it must not be optimised away. */
const sink = { last: undefined }

/** Bodies of loops, by what is called: `limiter` and `key` are there, and what is answered is whether it was allowed. */
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
 * A contender for `timeLaps`, with a loop of its own: in a shared one the engine would inline no call.
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
