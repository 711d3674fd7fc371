// Prints the results of WebAssembly.
import * as tollgate from 'tollgate/wasm'
import { answersOf } from './trace.mjs'

console.log(JSON.stringify(await answersOf(tollgate)))
