import { hexadecimal } from '../../../wasm/redis-inlined.js'
import { compile } from '../engine/compile.js'

/** What is for Redis, compiled when it is first needed. On workerd `module.workerd.mjs` takes the place of this. */
export const moduleOf = (): WebAssembly.Module => compile(hexadecimal)
