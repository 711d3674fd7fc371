// Replaces module.ts in the bundle for workerd.
import module from '../../../generated/wasm/redis.wasm'

export const moduleOf = () => module
