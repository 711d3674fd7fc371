/**
 * The contenders. Each file exports a {@link Contender}, configured as the documentation of its
 * package recommends. Its head comment names that documentation.
 *
 * @typedef {object} Options
 * @property {number} port Of Redis on 127.0.0.1, or of the service.
 * @property {number} limit Units of a key in each window.
 * @property {number} windowMs
 * @property {number} processes That share the limit.
 * @property {{ limit: number, ttlMs: number }} [hold] Limits what a key holds at once, instead.
 *
 * @typedef {object} Opened
 * @property {(key: string, cost: number) => Promise<{ allowed: boolean }>} take
 * @property {(key: string) => Promise<{ allowed: boolean }>} [hold] Holds a place until the process ends.
 *
 * @typedef {object} Contender
 * @property {string} title
 * @property {readonly string[]} packages That the program uses, whose versions are reported.
 * @property {Partial<Record<Need, string>>} unsupported Why the package cannot do what a scenario needs.
 * @property {boolean} [isService] Whether `port` is that of Upstash's REST interface.
 * @property {(options: Options) => Promise<Opened>} open
 *
 * @typedef {'cost' | 'subSecond' | 'hold'} Need
 */

/** The contenders, by the names of their files, in the order of the report. */
export const CONTENDERS = [
  'tollgate',
  'tollgate-sliding-window',
  'tollgate-fallback',
  'rate-limiter-flexible-ioredis',
  'rate-limiter-flexible-ioredis-insured',
  'rate-limiter-flexible-node-redis',
  'rate-limiter-flexible-node-redis-insured',
  'express-rate-limit',
  'fastify-rate-limit',
  'nestjs-throttler',
  'upstash-ratelimit',
  'bottleneck',
  'hono-rate-limiter',
]

/**
 * Loads contenders, which takes a second or two for all of them.
 *
 * @param {readonly string[]} names
 * @returns {Promise<(Contender & { name: string })[]>}
 */
export function loaded(names) {
  return Promise.all(names.map(async (name) => ({ name, ...(await import(`./${name}.mjs`)).contender })))
}
