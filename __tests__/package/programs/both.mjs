// A program that both imports and requires the package, as large programs do.
import { createRequire } from 'node:module'
import * as imported from 'tollgate'

const required = createRequire(import.meta.url)('tollgate')

console.log(
  JSON.stringify({
    sameClass: imported.RateLimiter === required.RateLimiter,
    imported: Object.keys(imported).sort(),
    required: Object.keys(required).sort(),
  }),
)
