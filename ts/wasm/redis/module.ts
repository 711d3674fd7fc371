import { deflated, size } from '../../../generated/wasm/redis-inlined.js'
import { compile } from '../engine/compile.js'

/** The WebAssembly module for Redis, compiled at first use. On workerd `module.workerd.mjs` replaces this file. */
export const moduleOf = (): WebAssembly.Module => compile({ deflated, size })
