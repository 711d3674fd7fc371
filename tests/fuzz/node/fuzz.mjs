/**
 * A coverage-guided fuzzer for the decoders in TypeScript: mutates inputs, and keeps those that reach
 * a block of code, or a number of passes through it, that no input has reached before. V8 counts
 * the blocks. `npm run fuzz` starts it; `tests/fuzz/README.md` describes it.
 *
 *     node tests/fuzz/node/fuzz.mjs TARGET --seconds N --seed N [--minimize] [--input FILE]
 *
 * Every input of the corpus runs first. A failing input is written to `target/fuzz/artifacts/`.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Session } from 'node:inspector'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Mutator } from './mutate.mjs'

const HERE = dirname(fileURLToPath(import.meta.url))
const ROOT = dirname(dirname(dirname(HERE)))
const WORK = join(ROOT, 'target', 'fuzz')

/** So many inputs run between two looks at the coverage, which costs as much as some of them. */
const BATCH = 64

/** The longest time of one input, in milliseconds of this process: decoders are linear, and inputs short. */
const MAX_MS = 1_000

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: 'string', default: '10' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    input: { type: 'string' },
    minimize: { type: 'boolean', default: false },
  },
})
const [name = ''] = positionals
const corpusFolder = join(ROOT, 'tests', 'fuzz', 'corpus', name)

/**
 * The target and the modules that it uses, as one script, so that its blocks have one address. esbuild runs in
 * a process of its own: V8 would count its blocks, too.
 *
 * The script is two folders below the root, as is the module that loads the addon.
 */
function load() {
  const file = join(ROOT, 'target', 'fuzz-node', `${name}.cjs`)
  const entry = join(HERE, 'targets', `${name}.ts`)
  const flags = ['--bundle', '--platform=node', '--target=node20', '--format=cjs', '--external:*/native.js']
  const words = [...flags, '--log-level=error', `--outfile=${file}`, entry]
  execFileSync(join(ROOT, 'node_modules', '.bin', 'esbuild'), words, { stdio: 'inherit' })
  return { file, target: createRequire(import.meta.url)(file) }
}

const session = new Session()
session.connect()

/** Calls a method of the inspector, which answers at once. */
function inspect(method, parameters) {
  let answer
  session.post(method, parameters, (error, result) => {
    if (error !== null) {
      throw error
    }
    answer = result
  })
  return answer
}

inspect('Profiler.enable')
inspect('Profiler.startPreciseCoverage', { callCount: true, detailed: true, allowTriggeredUpdates: false })
const { file, target } = load()

/** The blocks that were reached since the last look, each with the magnitude of its count. */
function reached() {
  const { result } = inspect('Profiler.takePreciseCoverage')
  const script = result.find(({ url }) => url.endsWith(file))
  const blocks = []
  for (const { ranges } of script?.functions ?? []) {
    for (const { startOffset, endOffset, count } of ranges) {
      if (count > 0) {
        blocks.push((startOffset * 4_194_304 + endOffset) * 32 + Math.min(31, 32 - Math.clz32(count)))
      }
    }
  }
  return blocks
}

const known = new Set()

/** Adds blocks to those known, and returns how many are new. */
function learn(blocks) {
  const before = known.size
  for (const block of blocks) {
    known.add(block)
  }
  return known.size - before
}

let executions = 0
let slowestMs = 0

/** Runs the target on an input. Whatever it throws is a finding. */
function run(input) {
  executions++
  const start = performance.now()
  try {
    target.run(input)
    const took = performance.now() - start
    slowestMs = Math.max(slowestMs, took)
    if (took > MAX_MS) {
      checkTime(input)
    }
  } catch (error) {
    const artifacts = join(WORK, 'artifacts', name)
    mkdirSync(artifacts, { recursive: true })
    const artifact = join(artifacts, `crash-${nameOf(input)}`)
    writeFileSync(artifact, input)
    console.error(`${name}: an input fails: ${artifact}\n${JSON.stringify(input.toString('latin1'))}`)
    console.error(error)
    process.exit(1)
  }
}

/** Runs an input that took long once more, by the clock of the process: the machine may be busy. */
function checkTime(input) {
  const before = process.cpuUsage()
  target.run(input)
  const took = process.cpuUsage(before).user / 1_000
  if (took > MAX_MS) {
    throw new Error(`it took ${took.toFixed(0)} ms`)
  }
}

function nameOf(input) {
  return createHash('sha1').update(input).digest('hex').slice(0, 16)
}

function readCorpus() {
  const files = existsSync(corpusFolder) ? readdirSync(corpusFolder).sort() : []
  return files.map((one) => readFileSync(join(corpusFolder, one)))
}

if (options.input !== undefined) {
  run(readFileSync(options.input))
  process.exit()
}

/** The committed inputs, and the target's examples, run one by one. */
const corpus = []
const seeds = [...readCorpus(), ...target.examples.map((text) => Buffer.from(text))]
// Short inputs first: a long one is kept only for what they do not reach.
seeds.sort((one, other) => one.length - other.length)
reached()
for (const input of seeds) {
  run(input)
  if (learn(reached()) > 0) {
    corpus.push(input)
  }
}
console.log(`${name}: seed ${options.seed}, ${seeds.length} inputs of the corpus, ${known.size} blocks`)

const mutator = new Mutator(Number(options.seed), [...target.dictionary], target.maxLength)
const until = performance.now() + Number(options.seconds) * 1_000
let printedAt = performance.now()
while (performance.now() < until) {
  const batch = Array.from({ length: BATCH }, () => mutator.mutate(corpus))
  batch.forEach(run)
  if (reached().some((block) => !known.has(block))) {
    // Which of them was it? Each alone shows its own counts.
    for (const input of batch) {
      run(input)
      if (learn(reached()) > 0) {
        corpus.push(input)
      }
    }
  }
  if (performance.now() - printedAt > 30_000) {
    printedAt = performance.now()
    console.log(`${name}: ${executions} executions, ${known.size} blocks, ${corpus.length} inputs`)
  }
}
if (options.minimize) {
  rmSync(corpusFolder, { recursive: true, force: true })
  mkdirSync(corpusFolder, { recursive: true })
  known.clear()
  for (const input of corpus.sort((one, other) => one.length - other.length)) {
    run(input)
    if (learn(reached()) > 0) {
      writeFileSync(join(corpusFolder, nameOf(input)), input)
    }
  }
}
console.log(
  `${name}: ${executions} executions, ${known.size} blocks, ${corpus.length} inputs, the slowest took ${slowestMs.toFixed(0)} ms`,
)
