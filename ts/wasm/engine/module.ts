import { deflated, size } from '../../../generated/wasm/inlined.js'
import { compile } from './compile.js'

/**
 * The compiled engine. Its bytes are in the text of the program, so that no file is needed. workerd cannot
 * compile at run time: there `module.workerd.mjs` replaces this file.
 */
export const module = compile({ deflated, size })
