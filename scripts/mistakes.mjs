/**
 * Common mistakes of users, with the answers of the compiler and of the package.
 *
 *     npm run build && node scripts/mistakes.mjs          # prints them
 *     npm run build:dev && node scripts/mistakes.mjs --write   # writes docs/mistakes.md
 *     node scripts/mistakes.mjs --check                   # fails unless docs/mistakes.md is current
 *
 * Exits with 1 if a mistake causes neither an error nor a warning, or if its message does not name the fix.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as tollgate from 'tollgate'
import { rateLimit } from 'tollgate/express'
import compiler from './mistakes/compiler.cjs'
import table from './mistakes/table.cjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const PAGE = join(ROOT, 'docs', 'mistakes.md')

const INTRODUCTION = `# Mistakes

The tables show the errors that TypeScript and the package report for common mistakes. A dash means that the compiler
does not find the mistake, because it is in a value and not in a type. If the compiler prints several lines, the table
shows the most specific line. \`node scripts/mistakes.mjs --write\` generates this page from \`scripts/mistakes/table.cjs\`.

Each mistake is in a program that begins with these lines:
`

/** The declarations that the mistakes use. */
const PRELUDE = `import {
${wrapped(Object.keys(tollgate))}
} from 'tollgate'
import { rateLimit } from 'tollgate/express'

const policy = gcra({ limit: 10, period: '1s' })
const limiter = new RateLimiter(policy)
const quota = new RateLimiter(fixedWindow({ limit: 10, window: '1m' }))
const counter = new RateLimiter(slidingCounter({ limit: 10, window: '1m' }))
const permits = new RateLimiter(concurrency({ limit: 1 }))
const plans = new RateLimiter(tiers({ free: gcra({ limit: 1, period: '1s' }), pro: gcra({ limit: 9, period: '1s' }) }))
const login = new RateLimiter({
  ip: gcra({ limit: 20, period: '1m', per: 'ip' }),
  account: gcra({ limit: 5, period: '1h', per: 'account' }),
})
const model = new RateLimiter({
  calls: gcra({ limit: 10, period: '1s' }),
  tokens: gcra({ limit: 1_000, period: '1s', meter: 'tokens' }),
})
const redis = new RedisStore('redis://localhost')
const shared = new RateLimiter(policy, { store: redis, prefix: 'mistakes' })
const hourly = new RateLimiter(gcra({ limit: 1, period: '1h', burst: 1 }))
const daily = new RateLimiter(gcra({ limit: 1, period: '1d', burst: 1 }))
const keys = ['ann', 'bob']
const client = { call: async () => 0, options: {} } // of another package
const createClient = () => ({ sendCommand: async () => 0 })
`

/** Lines of all programs that the page leaves out. */
const HIDDEN = 'declare const app: any\n'

const { mistakes, silent, imports, close } = table.mistakesOf(tollgate, rateLimit)

const answered = []
for (const { section, call, run, hint, isWarning } of mistakes) {
  const message = await (isWarning ? warningOf : messageOf)(run)
  const names = message !== undefined && hint.test(message)
  process.exitCode ||= names ? 0 : 1
  answered.push({ section, call, message: message ?? 'neither an error nor a warning', hint: names ? undefined : hint })
}
await close()
for (const [call, effect] of silent) {
  answered.push({ section: 'Only the compiler tells', call, message: `no error: ${effect}` })
}
for (const call of imports) {
  answered.push({ section: 'Imports', call, message: importErrorOf(call) })
}

const programs = answered.map(({ section, call }) =>
  section === 'Imports' ? call : `${PRELUDE}${HIDDEN}export const run = async () => {\n${call}\n}\n`,
)
const compiled = compiler.compilerAnswers(programs).map(([answer]) => answer && tellingLineOf(answer))

const mode = process.argv[2]
if (mode === '--write' || mode === '--check') {
  const page = pageOf(answered)
  if (mode === '--write') {
    writeFileSync(PAGE, page)
  } else if (readFileSync(PAGE, 'utf8') !== page) {
    console.error('docs/mistakes.md is not current: run node scripts/mistakes.mjs --write')
    process.exitCode = 1
  }
} else {
  answered.forEach(({ call, message, hint }, index) => {
    console.log(`${call}\n    ${message.replaceAll('\n', '\n    ')}\n    compiler: ${compiled[index] ?? '-'}`)
    console.log(hint === undefined ? '' : `    !! does not name ${hint}\n`)
  })
}

/** The names in alphabetic order, in lines of at most 100 characters. */
function wrapped(names) {
  return [...names]
    .sort((one, other) => one.localeCompare(other))
    .reduce((text, name) => {
      const line = text.slice(text.lastIndexOf('\n') + 1)
      return `${text}${text === '' ? '  ' : line.length + name.length > 98 ? ',\n  ' : ', '}${name}`
    }, '')
}

/** The first line of an answer; the last if the first only says that no signature fits. */
function tellingLineOf({ code, text }) {
  const lines = text.split('\n')
  return lines.at([2345, 2349, 2769].includes(code) ? -1 : 0).trim()
}

/** The page with a table for each section. */
function pageOf(rows) {
  const sections = Map.groupBy === undefined ? groupBy(rows) : Map.groupBy(rows, ({ section }) => section)
  const tables = [...sections].map(([title, entries]) => {
    const lines = entries.map((entry) => {
      const answer = compiled[rows.indexOf(entry)]
      return `| ${codeCell(entry.call)} | ${answer === undefined ? '–' : codeCell(answer)} | ${codeCell(stable(entry.message))} |`
    })
    return [`## ${title}`, '', '| mistake | compiler | when it runs |', '|---|---|---|', ...lines].join('\n')
  })
  return `${INTRODUCTION}\n\`\`\`ts\n${PRELUDE}\`\`\`\n\n${tables.join('\n\n')}\n`
}

function groupBy(rows) {
  const groups = new Map()
  for (const row of rows) {
    groups.set(row.section, [...(groups.get(row.section) ?? []), row])
  }
  return groups
}

/** A message without times that differ between runs, and without paths of this machine. */
function stable(message) {
  return message
    .replaceAll(/\b\d+(\.\d+)? s away/g, 'N s away')
    .replaceAll(/try again in [\d.]+ s/g, 'try again in N s')
    .replaceAll(/ at \S+ \(\S+\)/g, ' at …')
    .replaceAll(/ in \S+package\.json imported from .*/g, '')
}

/** Code of one line in a cell of a table. */
function codeCell(text) {
  const line = text.replaceAll(/\s*\n\s*/g, ' ').replaceAll('|', '\\|')
  const fence = line.includes('`') ? '``' : '`'
  const space = line.startsWith('`') || line.endsWith('`') ? ' ' : ''
  return `${fence}${space}${line}${space}${fence}`
}

/** The error of Node.js for a program that only imports. */
function importErrorOf(call) {
  try {
    execFileSync(process.execPath, ['--input-type=module', '--eval', call], { cwd: ROOT, stdio: 'pipe' })
    return 'no error'
  } catch (error) {
    return /^\w*Error.*$/m.exec(String(error.stderr))?.[0] ?? 'an error'
  }
}

/** @param {() => unknown} run */
async function messageOf(run) {
  try {
    await run()
  } catch (error) {
    return `${error.code ?? error.name}: ${error.message}`
  }
}

/** @param {() => unknown} run */
async function warningOf(run) {
  const { emitWarning } = process
  const warnings = []
  process.emitWarning = (message, { type, code }) => warnings.push(`[${code}] ${type}: ${message}`)
  try {
    await run()
  } finally {
    process.emitWarning = emitWarning
  }
  return warnings[0]
}
