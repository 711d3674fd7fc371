/** What is said of counted instructions beside the figures that they are judged by. */
import { printColumns } from '../node/report.mjs'

/** More than this fails; less, and the figures should be renewed. */
export const TOLERANCE = 0.1

/**
 * @typedef {Record<string, number>} Figures Instructions per call, by case.
 *
 * @typedef {object} Verdict
 * @property {string} name
 * @property {number} [figure] What was committed.
 * @property {number} [counted] What was counted now.
 * @property {number} [change] A part of the figure: 0.1 is a tenth more.
 * @property {'ok' | 'grown' | 'shrunk' | 'without a figure' | 'not counted'} is
 */

/**
 * Judges each case that was counted or that has a figure.
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
 * What to do, in sentences; whether all is well.
 *
 * @param {Verdict[]} verdicts
 * @param {string} update The command that renews the figures.
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
