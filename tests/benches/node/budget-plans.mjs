/** The budget and the streams of the benchmark of budgets. */

/** Of one customer, for an hour. A millionth of a cent is the unit of money. */
export const BUDGET = { tokens: 100_000, microcents: 500_000_000 }

export const PROCESSES = 3

/** The streams of all processes together that run at a time. */
export const STREAMS = 64

/** The price of a token. The tokens of an input cost less, so that both limits matter. */
const MICROCENTS = { input: 1_000, output: 6_000 }

/** The tokens that a stream reserves at a time, and that a gateway without reservations estimates. */
export const PART = 200

/** The tokens that a stream generates between two turns of the event loop. */
export const CHUNK = 20

export const costOf = ({ input, output }) => ({
  tokens: input + output,
  microcents: input * MICROCENTS.input + output * MICROCENTS.output,
})

/** The streams of one process, without end: their tokens of input and output, by seed. */
export function* streamsOf(seed) {
  let state = seed
  const random = () => {
    // A linear congruential generator of 32 bits.
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
  for (;;) {
    const input = 20 + Math.floor(random() * 400)
    // Most answers are short, and a few are long: an exponential distribution with the mean 600, up to 4,000.
    const output = 1 + Math.min(4_000, Math.floor(-600 * Math.log(1 - random())))
    yield { input, output }
  }
}
