/**
 * `npm run bench:report`: measures, and generates the pages about performance, their plots and the figures of
 * the README. See ../README.md.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { measure } from './measure.mjs'
import { filled } from './page.mjs'
import { plots } from './plots.mjs'
import { merged, PARTS, read, text } from './record.mjs'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const DOCS = join(ROOT, 'docs')
const PAGES = ['performance.md', 'performance-figures.md']

/** The folder for rough figures, which are not for the docs. */
const GLANCE = join(ROOT, 'target', 'performance')

const USAGE = `Usage: npm run bench:report -- [part...] [options]

Measures the parts (default: all) and writes performance.json, its pages and plots, and the
figures of README.md.
Other parts keep their record.

Parts: ${PARTS.join(', ')}

Options:
  --from FILE   measures nothing; takes the parts of a file of this or of npm run bench; repeatable
  --quick       short turns for rough figures; writes to target/performance/ instead of docs/
  --out DIR     the folder to write to, README.md included
  --help        prints this`

const OPTIONS = {
  from: { type: 'string', multiple: true },
  quick: { type: 'boolean', default: false },
  out: { type: 'string' },
  help: { type: 'boolean', default: false },
}

/** Writes pages, plots and record from the parts measured so far. */
function write(record, out) {
  const folder = join(out, 'plots', 'performance')
  // Deletes plots that no longer exist.
  if (existsSync(folder)) {
    for (const name of readdirSync(folder)) rmSync(join(folder, name))
  }
  mkdirSync(folder, { recursive: true })
  for (const [name, svg] of plots(record)) {
    writeFileSync(join(folder, `${name}.svg`), svg)
  }
  writeFileSync(join(out, 'performance.json'), text(record))
  for (const page of PAGES) {
    writeFileSync(join(out, page), filled(readFileSync(join(DOCS, page), 'utf8'), record))
  }
  writeFileSync(
    join(out === DOCS ? ROOT : out, 'README.md'),
    filled(readFileSync(join(ROOT, 'README.md'), 'utf8'), record),
  )
}

async function report({ values, positionals }) {
  const out = values.out ?? (values.quick ? GLANCE : DOCS)
  const kept = join(out, 'performance.json')
  const before = existsSync(kept) ? read(kept) : { parts: {} }
  if (values.from !== undefined) {
    write(merged([before, ...values.from.map(read)]), out)
    return
  }
  let record = before
  const names = positionals.length > 0 ? positionals : PARTS
  await measure(names, values.quick ? ['--quick'] : [], (part) => {
    record = merged([record, part])
    write(record, out)
  })
  console.log(`\nWritten: ${PAGES.map((page) => join(out, page)).join(', ')}, their record and their plots.`)
}

function requested() {
  try {
    const request = parseArgs({ args: process.argv.slice(2), options: OPTIONS, allowPositionals: true })
    const unknown = request.positionals.filter((name) => !PARTS.includes(name))
    if (unknown.length > 0) throw new Error(`No such part: ${unknown.join(', ')}.`)
    return request
  } catch (error) {
    console.error(`${error.message}\n\n${USAGE}`)
    process.exitCode = 1
    return undefined
  }
}

const request = requested()
if (request?.values.help) {
  console.log(USAGE)
} else if (request !== undefined) {
  await report(request)
}
