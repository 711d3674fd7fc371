/** The program that enforces a policy: what people copy. */
import { ALGORITHMS } from './algorithms.js'
import { optionsFrom } from './fields.js'
import type { TypedPolicy } from './state.js'

/** How long a line may be before an object is laid out over several. */
const WIDTH = 72

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
  return line.length <= WIDTH - 'const limiter = '.length ? line : wrapped(algorithm, options)
}

function wrapped(algorithm: string, options: Record<string, unknown>): string {
  const lines = Object.entries(options).map(([name, value]) => `    ${nameLiteral(name)}: ${literal(value)},\n`)
  return `new RateLimiter(\n  ${algorithm}({\n${lines.join('')}  }),\n)`
}

function literal(value: unknown): string {
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).map(([name, inner]) => `${nameLiteral(name)}: ${literal(inner)}`)
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
