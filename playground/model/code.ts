/** The program that enforces a policy: what people copy. */
import { ALGORITHMS } from './algorithms.js'
import { optionsFrom } from './fields.js'
import type { TypedPolicy } from './state.js'

/** How long a line may be before it is laid out over several. */
const WIDTH = 56

/** What is left of a line for an object, beside its name and what stands around it. */
const ROOM = 46

/** TypeScript, as for an application of one process. */
export function codeOf({ algorithm, values }: TypedPolicy, cost = 1): string {
  const options = optionsFrom(ALGORITHMS[algorithm].tree, values)
  const imported = [algorithm, 'RateLimiter'].toSorted((one, other) =>
    one.toLowerCase().localeCompare(other.toLowerCase(), 'en'),
  )
  return `import { ${imported.join(', ')} } from 'tollgate'

const limiter = ${limiterOf(algorithm, options)}

const decision = await limiter.take('user:42'${cost === 1 ? '' : `, ${cost}`})
if (!decision.allowed) {
  console.log(\`Again in \${decision.retryAfterMs} ms\`)
}
`
}

function limiterOf(algorithm: string, options: Record<string, unknown>): string {
  const line = `new RateLimiter(${algorithm}(${literal(options)}))`
  return 'const limiter = '.length + line.length <= WIDTH
    ? line
    : `new RateLimiter(\n  ${algorithm}(${laidOut(options, '  ')}),\n)`
}

/** In one line if there is room, otherwise with a line for each entry. */
function laidOut(value: unknown, indent: string): string {
  const line = literal(value)
  if (indent.length + line.length <= ROOM || typeof value !== 'object' || value === null) {
    return line
  }
  const inner = `${indent}  `
  const entries = Object.entries(value).map(([name, one]) => `${inner}${nameLiteral(name)}: ${laidOut(one, inner)},\n`)
  return `{\n${entries.join('')}${indent}}`
}

function literal(value: unknown): string {
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).map(([name, one]) => `${nameLiteral(name)}: ${literal(one)}`)
    return `{ ${entries.join(', ')} }`
  }
  return typeof value === 'string' ? quoted(value) : String(value)
}

function nameLiteral(name: string): string {
  return /^[A-Za-z_]\w*$/.test(name) ? name : quoted(name)
}

function quoted(text: string): string {
  const escaped = JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")
  return `'${escaped}'`
}
