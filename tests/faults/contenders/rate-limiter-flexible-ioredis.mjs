/** rate-limiter-flexible over ioredis, without insurance. of-rate-limiter-flexible.mjs names the documentation. */
import { ioredis, opened, unsupported } from './of-rate-limiter-flexible.mjs'

/** @type {import('./all.mjs').Contender} */
export const contender = {
  title: 'rate-limiter-flexible, ioredis',
  packages: ['rate-limiter-flexible', 'ioredis'],
  unsupported,
  open: async (options) => opened(await ioredis(options), options, false),
}
