/**
 * The figures of a cell, from the log of all processes. A figure counts only what is certain from
 * the log, whatever the delays between a process and its store were.
 *
 * @typedef {object} Call
 * @property {string} key
 * @property {number} cost
 * @property {number} start In milliseconds, of the clock that all processes share.
 * @property {number} [end] Missing if the call was never answered.
 * @property {'allowed' | 'refused' | 'failed'} [outcome]
 * @property {number} [starvedMs] For how long a busy machine kept its process from running meanwhile.
 *
 * @typedef {object} Facts
 * @property {number} limit Units that a key may take in each window.
 * @property {number} [windowMs] Default: no window ends during the run.
 * @property {number} [healedMs] When the fault ended.
 * @property {Record<string, number>} [remaining] Units that were left of a key at the end, if the
 * run did not use all of them.
 */

/** A call counts as unanswered after this time: five seconds, and a margin for timers that fire late. */
export const PATIENCE_MS = 5_250

/**
 * @param {readonly Call[]} calls
 * @param {Facts} facts
 */
export function figures(calls, { limit, windowMs = Number.POSITIVE_INFINITY, healedMs, remaining = {} }) {
  const keys = [...new Set(calls.map(({ key }) => key))].map((key) => calls.filter((call) => call.key === key))
  const charges = Object.entries(remaining).map(([key, left]) =>
    charged(
      calls.filter((call) => call.key === key),
      limit - left,
    ),
  )
  return {
    calls: calls.length,
    admitted: unitsOf(calls.filter(isAllowed)),
    beyond: sum(keys.map((own) => beyond(own, limit, windowMs))),
    refusedFree: sum(keys.map((own) => refusedFree(own, limit, windowMs))),
    failed: calls.filter(({ outcome }) => outcome === 'failed').length,
    unanswered: calls.filter(isUnanswered).length,
    ...(healedMs !== undefined && { recoverySeconds: recovery(calls, healedMs) }),
    ...(charges.length > 0 && {
      lost: sum(charges.map(({ lost }) => lost)),
      doubled: sum(charges.map(({ doubled }) => doubled)),
    }),
  }
}

/** The units above the limit in the fullest window, of calls that began and ended within it. */
function beyond(calls, limit, windowMs) {
  const allowed = calls.filter(isAllowed)
  const fullest = allowed.map(({ start }) =>
    unitsOf(allowed.filter((call) => call.start >= start && call.end < start + windowMs)),
  )
  return Math.max(0, ...fullest.map((units) => units - limit))
}

/**
 * Refusals for which there was room: even if all calls whose outcome is unknown were charged, and
 * if calls at the same time came first.
 */
function refusedFree(calls, limit, windowMs) {
  const mayCharge = calls.filter(({ outcome }) => outcome !== 'refused')
  return calls.filter((refused) => {
    const before = mayCharge.filter(
      (call) => call.start < refused.end && (call.end ?? Number.POSITIVE_INFINITY) > refused.start - windowMs,
    )
    return refused.outcome === 'refused' && unitsOf(before) + refused.cost <= limit
  }).length
}

/**
 * Seconds from the end of the fault to the first answer after which no call failed: `null` if the
 * calls still failed when the run ended.
 */
function recovery(calls, healedMs) {
  const after = calls.filter(({ start }) => start >= healedMs)
  const lastFailure = Math.max(healedMs, ...after.filter((call) => !isAnswered(call)).map(({ start }) => start))
  const answers = after.filter((call) => isAnswered(call) && call.end > lastFailure).map(({ end }) => end)
  return answers.length === 0 ? null : Math.round((Math.min(...answers) - healedMs) / 100) / 10
}

/** Units that were granted and are not counted, and units that are counted and were never asked for. */
function charged(calls, counted) {
  const granted = unitsOf(calls.filter(isAllowed))
  const unknown = unitsOf(calls.filter((call) => !isAnswered(call)))
  return { lost: Math.max(0, granted - counted), doubled: Math.max(0, counted - granted - unknown) }
}

function isAllowed({ outcome }) {
  return outcome === 'allowed'
}

function isAnswered({ outcome }) {
  return outcome === 'allowed' || outcome === 'refused'
}

function isUnanswered({ start, end, starvedMs = 0 }) {
  return end === undefined || end - start - starvedMs > PATIENCE_MS
}

function unitsOf(calls) {
  return sum(calls.map(({ cost }) => cost))
}

function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0)
}
