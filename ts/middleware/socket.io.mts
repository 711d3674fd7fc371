/** `tollgate/socket.io` for `import`: the same module. */
export type * from './socket.io.js'
export { ipKey, limitConnections, limitEvents } from './socket.io.js'
