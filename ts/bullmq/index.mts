/** `tollgate/bullmq` for `import`: the same module. */
export type * from './index.js'
export { rateLimited } from './index.js'
