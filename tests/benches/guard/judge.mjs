/** Compares the counted instructions with the committed figures. */
import { printColumns } from '../node/report.mjs'

/** Growth by more than this fails. After a decrease by more, the figures should be updated. */
export const TOLERANCE = 0.1

/**
 * @typedef {Record<string, number>} Figures Instructions per call, by case.
 *
 * @typedef {object} Verdict
 * @property {string} name
 * @property {number} [figure] The committed figure.
 * @property {number} [counted] The current count.
 * @property {number} [change] Relative to the figure: 0.1 is a tenth more.
 * @property {'ok' | 'grown' | 'shrunk' | 'without a figure' | 'not counted'} is
 */

/**
 * Compares each case that was counted or that has a figure.
 *
 * @param {Figures} figures
 * @param {Figures} counted
 * @returns {Verdict[]}
 */
export function judge(figures, counted) {
  const names = [...new Set([...Object.keys(figures), ...Object.keys(counted)])]
  return names.map((name) => {
    const [figure, now] = [figures[name], counted[name]]
    if (figure === undefined) {
      return { name, counted: now, is: 'without a figure' }
    }
    if (!(now > 0)) {
      return { name, figure, is: 'not counted' }
    }
    const change = (now - figure) / figure
    return { name, figure, counted: now, change, is: verdictOn(change) }
  })
}

function verdictOn(change) {
  if (change < -TOLERANCE) {
    return 'shrunk'
  }
  return change <= TOLERANCE ? 'ok' : 'grown'
}

/** @param {Verdict[]} verdicts */
export function printVerdicts(verdicts) {
  const number = (value) => value?.toFixed(1) ?? '-'
  const percent = (change) => (change === undefined ? '-' : `${change < 0 ? '' : '+'}${(change * 100).toFixed(1)} %`)
  printColumns(
    ['instructions per call', 'figure', 'counted', 'change', ''],
    verdicts.map(({ name, figure, counted, change, is }) => {
      return [name, number(figure), number(counted), percent(change), is === 'ok' ? '' : is.toUpperCase()]
    }),
  )
}

/**
 * The instructions to the user, and whether the guard passes.
 *
 * @param {Verdict[]} verdicts
 * @param {string} update The command that updates the figures.
 * @returns {{ isWell: boolean, told: string[] }}
 */
export function conclusionOf(verdicts, update) {
  const named = (is) => verdicts.filter((verdict) => verdict.is === is).map(({ name }) => name)
  const limit = `${TOLERANCE * 100} %`
  const failures = [
    [named('grown'), `grew by more than ${limit}. Mend that; if it cannot be helped, say why and renew the figures`],
    [named('without a figure'), 'has no figure. Renew the figures'],
    [named('not counted'), 'has a figure but was not counted. Bring it back, or renew the figures'],
  ]
  const told = failures.filter(([names]) => names.length > 0)
  const sentences = told.map(([names, what]) => `FAILED: ${names.join('; ')}: ${what}: ${update}`)
  const shrunk = named('shrunk')
  if (shrunk.length > 0) {
    sentences.push(
      `${shrunk.join('; ')}: shrank by more than ${limit}. So that it stays so, renew the figures: ${update}`,
    )
  }
  return { isWell: told.length === 0, told: sentences }
}
