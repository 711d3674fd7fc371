/** What a cell of the record shows, in figures. */

/**
 * The figures of a cell that is worth a reader's look, by their letters.
 *
 * @typedef {object} Finding
 * @property {string} letter
 * @property {string} text The figure.
 * @property {string} words
 * @property {boolean} isCount Whether units are wrong. Otherwise calls got errors, or late answers.
 */

/** @type {readonly { letter: string, name: string, words: (text: string) => string, isCount?: boolean }[]} */
const FIGURES = [
  { letter: 'A', name: 'beyond', words: (units) => `${units} admitted beyond the limit`, isCount: true },
  { letter: 'R', name: 'refusedFree', words: (calls) => `${calls} refused although free`, isCount: true },
  { letter: 'L', name: 'lost', words: (units) => `${units} charges lost`, isCount: true },
  { letter: 'D', name: 'doubled', words: (units) => `${units} charges doubled`, isCount: true },
  { letter: 'U', name: 'unanswered', words: (calls) => `${calls} calls without an answer after 5 s` },
  { letter: 'E', name: 'failed', words: (calls) => `${calls} calls failed` },
  { letter: 'T', name: 'recoverySeconds', words: (seconds) => `${seconds} s to recovery` },
]

/** @returns {readonly Finding[]} */
export function findings(cell) {
  return FIGURES.filter(({ name }) => name in cell && cell[name] !== 0).map(
    ({ letter, name, words, isCount = false }) => {
      const text = cell[name] === null ? '>3' : `${cell[name]}`
      return { letter, text, words: words(text.replace('>', 'more than ')), isCount }
    },
  )
}

/** The kinds of cells, from the best to the worst. */
export function kindOf(cell) {
  if ('unsupported' in cell) return 'unsupported'
  const all = findings(cell)
  if (all.some(({ isCount }) => isCount)) return 'counts'
  return all.length > 0 ? 'answers' : 'nothing'
}

/** Whether a contender is one of ours. */
export function isOurs({ name }) {
  return name.startsWith('tollgate')
}
