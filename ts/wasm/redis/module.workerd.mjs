// Takes the place of module.ts in what is for workerd.
import module from '../../../wasm/redis.wasm'

export const moduleOf = () => module
