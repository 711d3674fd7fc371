/**
 * Draws sentences of the README and of the pages in docs/, to be read one by one. The same seed draws the same sentences:
 *
 *     npm run docs:sample -- --sentences 100 --seed 53
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))

const USAGE = `Usage: npm run docs:sample -- [options]

Prints sentences of the README and of docs/, each with its page and line.

Options:
  --sentences N   how many, a whole number from 1 (default: 100)
  --seed N        a whole number from 0; the same seed draws the same sentences (default: 1)
  --help          prints this`

const OPTIONS = {
  sentences: { type: 'string', default: '100' },
  seed: { type: 'string', default: '1' },
  help: { type: 'boolean', default: false },
}

const request = parsed()
if (request?.help) {
  console.log(USAGE)
} else if (request) {
  print(request)
}

/** The options of the command line; nothing if they are not valid, which is printed. */
function parsed() {
  try {
    const { sentences, seed, help } = parseArgs({ options: OPTIONS }).values
    return { help, count: wholeNumber('--sentences', sentences, 1), seed: wholeNumber('--seed', seed, 0) }
  } catch (error) {
    console.error(`${error.message}\n--help prints the options.`)
    process.exitCode = 1
  }
}

function wholeNumber(option, text, least) {
  const number = Number(text)
  if (!Number.isSafeInteger(number) || number < least) {
    throw new RangeError(`${option} must be a whole number from ${least}`)
  }
  return number
}

function print({ count, seed }) {
  const list = ['ls-files', '-co', '--exclude-standard', 'README.md', 'docs/*.md']
  const pages = execFileSync('git', list, { cwd: ROOT, encoding: 'utf8' }).trim().split('\n').sort()
  const all = pages.flatMap((page) => sentencesOf(page, readFileSync(join(ROOT, page), 'utf8')))
  for (const { page, line, text } of drawn(all, seed).slice(0, count)) {
    console.log(`${page}:${line} ${text}`)
  }
}

/** The sentences of paragraphs and lists, with their lines. Code, tables, headings and comments have none. */
function sentencesOf(page, markdown) {
  const blank = (text) => text.replace(/[^\n]/g, ' ')
  const prose = markdown
    .replace(/^ *```[\s\S]*?^ *```$/gm, blank)
    .replace(/<!--[\s\S]*?-->/g, blank)
    .replace(/^(\||#|!).*$/gm, blank)
  return [...prose.matchAll(/\S(?:[^\n]|\n(?! *\n| *- | *\d+\. ))*/g)].flatMap((paragraph) => {
    const sentence = /\S[\s\S]*?(?:(?:(?<!^\d+)[.?!][*)"]*|:(?!\*))(?=\s+[A-Z`*[(])|$(?![\s\S]))/g
    return [...paragraph[0].matchAll(sentence)].map(({ 0: text, index }) => ({
      page,
      line: prose.slice(0, paragraph.index + index).split('\n').length,
      text: text
        .trim()
        .replace(/\s+/g, ' ')
        .replace(/^(?:-|\d+\.) /, ''),
    }))
  })
}

/** The sentences in an order that the seed alone decides (Fisher and Yates; numbers by Mulberry32). */
function drawn(sentences, seed) {
  const order = [...sentences]
  let state = seed
  const random = () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  for (let index = order.length - 1; index > 0; index--) {
    const other = Math.floor(random() * (index + 1))
    ;[order[index], order[other]] = [order[other], order[index]]
  }
  return order
}
