/** Defects of the calls above connections. The simulation of calls finds each within the seeds of the gate. */

const SENT_FLUSH = 'ts/wasm/redis/sent-flush.ts'
const TRANSPORT = 'ts/wasm/redis/flush-transport.ts'
const FALLBACK = 'ts/backends/fallback/fallback-backend.ts'

export default {
  'through a client, a resend after an unknown result': [
    SENT_FLUSH,
    'this.#flush.onError(index, message, systemCode)',
    "this.#flush.onError(index, systemCode === 'ECONNRESET' ? 'LOADING' : message, systemCode)",
  ],
  'through a client, a dropped deadline': [
    SENT_FLUSH,
    'this.#timer = timers.setTimeout(() => this.#expire(), timeoutMs)',
    'this.#timer = timers.setTimeout(() => this.#expire(), timeoutMs * 4)',
  ],
  'through a client, a swapped order': [
    TRANSPORT,
    "const first = this.#pending.find(({ sent }) => sent.state === 'retry')",
    "const first = [...this.#pending].reverse().find(({ sent }) => sent.state === 'retry')",
  ],
  'through a client without order, a call that does not wait for the earlier one': [
    TRANSPORT,
    "if (state === 'waiting' && !keys.some((key) => owners.has(key))) {",
    "if (state === 'waiting') {",
  ],
  'a dropped deadline of the batcher': [
    'ts/backends/redis/batching/deadlines.ts',
    'const GRACE_MS = 40',
    'const GRACE_MS = 400',
  ],
  'a lease that is used after its end': [
    'ts/backends/local/lease.ts',
    'this.until = sentAt + lastsMs * (1 - CLOCK_MARGIN)',
    'this.until = sentAt + 20 * lastsMs * (1 - CLOCK_MARGIN)',
  ],
  'a refusal that is cached for too long': [
    'ts/backends/local/refusal-cache.ts',
    'let until = sentAt + Math.min(retryAfterMs - 1, this.#maxMs)',
    'let until = sentAt + (retryAfterMs > 0 ? this.#maxMs : 0)',
  ],
  'a refusal under one meter that is taken for one under all': [
    'ts/backends/local/refused-key.ts',
    'other.dimension === dimension && meterOf(policy) === meterOf(index)',
    'other.dimension === dimension && (meterOf(policy) ?? index) >= 0',
  ],
  'a call with an id that is charged again': ['lua/executor/repeats.lua', 'if record then', 'if record and false then'],
  'a repeated reservation with a hold of its own': [
    'ts/api/limiter.ts',
    'hold: first?.hold ?? hold,',
    'hold: first?.hold === undefined ? hold : hold,',
  ],
  'a permit that is held after its loss': [
    'ts/api/held-permit.ts',
    'if (this.isOver || isAboutToExpire({ expiresMs, since: this.#renewedAt }, now)) {',
    'if (isAboutToExpire({ expiresMs: 9 * expiresMs, since: this.#renewedAt }, now)) {',
  ],
  'a permit whose answer comes after its life': [
    'ts/api/permit-pool.ts',
    "decision.source !== 'none' && isAboutToExpire(granted, this.#time.elapsedMs())",
    "decision.source === 'fallback' && isAboutToExpire(granted, this.#time.elapsedMs())",
  ],
  'a fallback that answers although the store has answered': [
    FALLBACK,
    'return Promise.resolve(call(this.#store)).then(onStoreResult, useFallback)',
    `const answer = Math.random() < 0.9 ? onStoreResult : () => call(this.#fallback)
      return Promise.resolve(call(this.#store)).then(answer, useFallback)`,
  ],
}
