/**
 * The same for `import`: see `index.mts`.
 *
 * @packageDocumentation
 */

export type * from './express-rate-limit.js'
export { TollgateStore } from './express-rate-limit.js'
