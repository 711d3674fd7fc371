/**
 * The scenarios, in the order of the report.
 *
 * @typedef {object} Scenario
 * @property {string} name For `--fault`.
 * @property {string} title
 * @property {import('../contenders/all.mjs').Need} [needs] Without this a contender cannot take part.
 * @property {(contender: import('../contenders/all.mjs').Contender) => Promise<object>} run
 */

import { evictions, processKilled, refusedCost, scriptFlush, thousandAtOnce } from './others.mjs'
import { cutInReply, failingOver, frozen, killed, restarted } from './outages.mjs'
import { clockSkew, subSecond, windowEdges } from './windows.mjs'

/** @type {readonly Scenario[]} */
export const SCENARIOS = [
  windowEdges,
  subSecond,
  clockSkew,
  thousandAtOnce,
  refusedCost,
  killed,
  frozen,
  restarted,
  failingOver,
  scriptFlush,
  cutInReply,
  evictions,
  processKilled,
]
