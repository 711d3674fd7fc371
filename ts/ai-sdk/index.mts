/** `tollgate/ai-sdk` for `import`: the same module. */
export type * from './index.js'
export { rateLimit } from './index.js'
