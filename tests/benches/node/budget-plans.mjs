/** The budget and the streams of the benchmark of budgets. */
import { Random } from '../../simulation/calls/random.mjs'

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
  const random = new Random(seed)
  for (;;) {
    const input = random.whole(20, 420)
    // Most answers are short, and a few are long: an exponential distribution with the mean 600, up to 4,000.
    const output = 1 + Math.min(4_000, Math.floor(-600 * Math.log(1 - random.next())))
    yield { input, output }
  }
}
