/**
 * The same for `import`: see `../index.mts`.
 *
 * @packageDocumentation
 */

export type * from './index.js'
export { instrument, instrumentStore } from './index.js'
