// Prints the results of the addon.
import * as tollgate from 'tollgate'
import { answersOf } from './trace.mjs'

console.log(JSON.stringify(await answersOf(tollgate)))
