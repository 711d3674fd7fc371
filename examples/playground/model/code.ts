/** Generates the program that enforces a policy, for copying. */
import { ALGORITHMS, functionOf } from './algorithms.js'
import { optionsFrom } from './fields.js'
import type { TypedPolicy } from './state.js'
import { type CallCosts, meterOf } from './trace.js'

/** The maximum length of a line before it is split. */
const MAX_LINE = 46

/** The maximum length of an object in a line, without its name and the code around it. */
const MAX_OBJECT = 38

/** TypeScript for an application with one process. */
export function codeOf({ algorithm, values }: TypedPolicy, { cost, units = {} }: CallCosts = { cost: 1 }): string {
  const options = optionsFrom(ALGORITHMS[algorithm].tree, values)
  const meter = meterOf(options)
  const own = meter === undefined ? cost : { cost: { [meter]: units[meter] ?? 1 } }
  const name = functionOf(algorithm)
  const imported = [name, 'RateLimiter'].toSorted((one, other) =>
    one.toLowerCase().localeCompare(other.toLowerCase(), 'en'),
  )
  return `import { ${imported.join(', ')} } from 'tollgate'

const limiter = ${limiterOf(name, options)}

const decision = await limiter.take('user:42'${own === 1 ? '' : `, ${literal(own)}`})
if (!decision.allowed) {
  console.log(\`Again in \${decision.retryAfterMs} ms\`)
}
`
}

function limiterOf(name: string, options: Record<string, unknown>): string {
  const line = `new RateLimiter(${name}(${literal(options)}))`
  return 'const limiter = '.length + line.length <= MAX_LINE
    ? line
    : `new RateLimiter(\n  ${name}(${formatValue(options, '  ')}),\n)`
}

/** One line if it fits, otherwise one line for each entry. */
function formatValue(value: unknown, indent: string): string {
  const line = literal(value)
  if (indent.length + line.length <= MAX_OBJECT || typeof value !== 'object' || value === null) {
    return line
  }
  const inner = `${indent}  `
  const entries = Object.entries(value).map(
    ([name, one]) => `${inner}${nameLiteral(name)}: ${formatValue(one, inner)},\n`,
  )
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
