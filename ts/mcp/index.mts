/** `tollgate/mcp` for `import`: the same module. */
export type * from './index.js'
export { limitToolCalls, limitTools } from './index.js'
