// Replaces module.ts in the bundle for workerd.
import module from '../../../wasm/redis.wasm'

export const moduleOf = () => module
