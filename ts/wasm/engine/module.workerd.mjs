// Replaces module.ts in the bundle for workerd, which compiles modules only when a Worker
// is deployed.
import module from '../../../generated/wasm/tollgate.wasm'

export { module }
