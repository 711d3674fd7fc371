/**
 * `npm run bench:guard`: compares instructions per call with the committed figures. See
 * ../README.md.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { arch } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { conclusionOf, judge, printVerdicts, TOLERANCE } from './judge.mjs'

const FIGURES = fileURLToPath(new URL('../guard.json', import.meta.url))
const UPDATE = 'npm run bench:guard -- --update'

const USAGE = `Usage: npm run bench:guard -- [options]

Options:
  --update         writes what was counted as the figures to judge by
  --figures FILE   judges by the figures in this file (default: tests/benches/guard.json)
  --counted FILE   judges what this file says was counted, and counts nothing:
                   { "rustc": VERSION, "instructions": { CASE: PER CALL } }
  --help           prints this`

const OPTIONS = {
  update: { type: 'boolean', default: false },
  figures: { type: 'string', default: FIGURES },
  counted: { type: 'string' },
  help: { type: 'boolean', default: false },
}

const read = (file) => JSON.parse(readFileSync(file, 'utf8'))

/**
 * Counts the instructions, and returns the compiler. Loaded here, because given figures do not need
 * it.
 */
async function countedNow() {
  await import('../../../scripts/ensure-valgrind.mjs')
  const { compiler, countAll } = await import('./count.mjs')
  return { rustc: compiler(), instructions: countAll() }
}

async function guard({ update, figures: file, counted }) {
  const all = read(file)
  const figures = all[arch()]
  if (figures === undefined && !update) {
    console.error(`There are no figures for ${arch()}, and those of other processors say nothing here: ${UPDATE}`)
    return false
  }
  const now = counted === undefined ? await countedNow() : read(counted)
  const verdicts = judge(figures?.instructions ?? {}, now.instructions)
  printVerdicts(verdicts)
  console.log()
  if (update) {
    writeFileSync(file, `${JSON.stringify({ ...all, [arch()]: now }, undefined, 2)}\n`)
    console.log('The figures have been renewed.')
    return true
  }
  const { isWell, told } = conclusionOf(verdicts, UPDATE)
  for (const sentence of told) {
    console.log(sentence)
  }
  if (figures.rustc !== now.rustc) {
    console.log(
      `The figures are of rustc ${figures.rustc}, and this is ${now.rustc}, which may make other instructions of the ` +
        `same code: RUSTUP_TOOLCHAIN=${figures.rustc} shows what is of the code.`,
    )
  }
  if (isWell) {
    console.log(`Nothing has grown by more than ${TOLERANCE * 100} %.`)
  }
  return isWell
}

function requested() {
  try {
    return parseArgs({ options: OPTIONS }).values
  } catch (error) {
    console.error(`${error.message}\n\n${USAGE}`)
    process.exitCode = 1
    return undefined
  }
}

const request = requested()
if (request?.help) {
  console.log(USAGE)
} else if (request !== undefined) {
  const isWell = await guard(request).catch((error) => console.error(error.message))
  process.exitCode = isWell ? 0 : 1
}
