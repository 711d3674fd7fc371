/** rate-limiter-flexible over node-redis, without insurance. of-rate-limiter-flexible.mjs names the documentation. */
import { nodeRedis, opened, unsupported } from './of-rate-limiter-flexible.mjs'

/** @type {import('./all.mjs').Contender} */
export const contender = {
  title: 'rate-limiter-flexible, node-redis',
  packages: ['rate-limiter-flexible', 'redis'],
  unsupported,
  open: async (options) => opened(await nodeRedis(options), options, false),
}
