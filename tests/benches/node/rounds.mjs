/**
 * Interleaved rounds: every contender takes a short turn in each round, in a rotated order. A
 * machine that slows down for a second slows all contenders, and the median ignores that round.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * @typedef {object} Pace
 * @property {number} rounds
 * @property {number} turnMs The measured time of a contender in each round.
 * @property {number} warmUpMs The time for which each contender runs before the first round.
 */

/**
 * Returns the measurements by contender and round.
 *
 * @template {{ name: string }} C
 * @template M
 * @param {readonly C[]} contenders
 * @param {Pace} pace
 * @param {(contender: C, millis: number) => Promise<M>} turn Measures one contender for `millis`.
 * @returns {Promise<Map<string, M[]>>}
 */
export async function interleave(contenders, { rounds, turnMs, warmUpMs }, turn) {
  const measured = new Map(contenders.map(({ name }) => [name, []]))
  for (const contender of contenders) {
    await turn(contender, warmUpMs)
  }
  for (let round = 0; round < rounds; round++) {
    for (const contender of rotated(contenders, round)) {
      // No contender pays for the garbage of the previous one.
      collectGarbage()
      measured.get(contender.name).push(await turn(contender, turnMs))
    }
  }
  return measured
}

function rotated(list, by) {
  const start = by % list.length
  return [...list.slice(start), ...list.slice(0, start)]
}

/** A full garbage collection, without a flag on the command line. */
const collectGarbage = (() => {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc')
})()
