/**
 * Checks the prose of the pages: spelling (cspell), doubled words and empty phrases (write-good), and
 * the length of the README. Prints what it finds, and exits with 1 if there is anything:
 *
 *     npm run docs:prose
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import writeGood from 'write-good'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))

/** The most words of the README, counted as `wc -w` does, and of one sentence of it. */
const MAX_README_WORDS = 900
const MAX_SENTENCE_WORDS = 40

/** The checks of write-good. The others object to words that have a meaning here: "several", "so", "it is". */
const CHECKS = { passive: false, weasel: false, tooWordy: false, adverb: false, eprime: false, so: false }

const pages = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '*.md'], { cwd: ROOT, encoding: 'utf8' })
  .trim()
  .split('\n')

const findings = [...spelling(), ...pages.flatMap(phrases), ...readme()]
for (const finding of findings) {
  console.error(finding)
}
process.exitCode = findings.length > 0 ? 1 : 0

function spelling() {
  const cspell = join(ROOT, 'docs', 'node_modules', 'cspell', 'bin.mjs')
  const words = [cspell, 'lint', '--no-progress', '--no-summary', '--config', join('docs', 'cspell.json'), ...pages]
  try {
    execFileSync('node', words, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
    return []
  } catch ({ stdout, stderr }) {
    return `${stdout}${stderr}`.trim().split('\n')
  }
}

/** The findings of write-good in the prose of a page. */
function phrases(page) {
  const text = proseOf(readFileSync(join(ROOT, page), 'utf8'))
  return writeGood(text, CHECKS).map(({ index, reason }) => {
    return `${page}:${text.slice(0, index).split('\n').length} ${reason}`
  })
}

/** The lengths of the README. They are printed. */
function readme() {
  const text = readFileSync(join(ROOT, 'README.md'), 'utf8')
  const words = text.split(/\s+/).filter(Boolean).length
  const lines = text.split('\n').filter((line) => !line.startsWith('|') && !line.startsWith('!'))
  const longestLine = Math.max(...lines.map((line) => line.length))
  const sentences = proseOf(text)
    .split(/[.?!:]\s|\n\s*\n|\n- |\n#|\|/)
    .map((sentence) => sentence.split(/\s+/).filter(Boolean).length)
  const longestSentence = Math.max(...sentences)
  console.log(
    `README: ${words} words; longest line ${longestLine} characters; longest sentence ${longestSentence} words`,
  )
  return [
    ...(words > MAX_README_WORDS ? [`README.md has ${words} words, more than ${MAX_README_WORDS}`] : []),
    ...(longestSentence > MAX_SENTENCE_WORDS ? [`README.md has a sentence of ${longestSentence} words`] : []),
  ]
}

/** A page without code, links, comments and tables of figures; its lines stay. */
function proseOf(markdown) {
  const blank = (text) => text.replace(/[^\n]/g, ' ')
  return markdown
    .replace(/```[\s\S]*?```/g, blank)
    .replace(/<!-- figures[\s\S]*?<!-- end -->/g, blank)
    .replace(/<!--[\s\S]*?-->/g, blank)
    .replace(/`[^`\n]*`/g, (code) => code.replace(/\W/g, 'x'))
    .replace(/\]\([^)]*\)/g, (link) => `]${' '.repeat(link.length - 1)}`)
}
