import { base64 } from '../../wasm/inlined.js'

/**
 * The engine, compiled. It is in the text of the program, so that no file must be found and nothing be waited for, wherever
 * that is run and by whatever it was bundled. Where nothing may be compiled at run time another file takes the place
 * of this one: `module.workerd.mjs`.
 */
export const module = new WebAssembly.Module(Uint8Array.from(atob(base64), (character) => character.charCodeAt(0)))
