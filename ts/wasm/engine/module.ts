import { hexadecimal } from '../../../wasm/inlined.js'
import { compile } from './compile.js'

/**
 * The engine, compiled. It is in the text of the program, so that no file must be found and nothing be waited for,
 * wherever that runs and by whatever it was bundled. On workerd, which compiles nothing at run time, another file takes
 * the place of this one: `module.workerd.mjs`.
 */
export const module = compile(hexadecimal)
