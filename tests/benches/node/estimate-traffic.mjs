/** The calls of the simulation of estimates: tokens of input and output, and the declared maximum. */
import { readFileSync } from 'node:fs'

const { traces } = JSON.parse(readFileSync(new URL('azure-quantiles.json', import.meta.url), 'utf8'))

/** The maximum that a request declares. */
const DECLARED = 4_096

/** A number of a distribution that is given by its quantiles, with straight lines between them. */
function drawn(quantiles, random) {
  const at = random.next() * (quantiles.length - 1)
  const below = Math.floor(at)
  const [low, high] = [quantiles[below], quantiles[below + 1]]
  return Math.round(low + (high - low) * (at - below))
}

/** A number of a normal distribution, by Box and Muller. */
const normal = (random) => Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next())

const exponential = (random, mean) => -mean * Math.log(1 - random.next())

/** An answer ends at the declared maximum. */
const answerOf = (output, declared) => Math.max(1, Math.min(declared, Math.round(output)))

const recorded = (trace) => (random) => ({
  input: drawn(trace.input, random),
  output: answerOf(drawn(trace.output, random), DECLARED),
  declared: DECLARED,
})

const synthetic = (outputOf) => (random, progress) => ({
  input: random.whole(100, 900),
  output: answerOf(outputOf(random, progress), DECLARED),
  declared: DECLARED,
})

/**
 * Each makes a call from random numbers and from the share of the time that has passed.
 *
 * @type {Record<string, (random: import('../../simulation/calls/random.mjs').Random, progress: number) =>
 *   { input: number, output: number, declared: number }>}
 */
export const TRAFFIC = {
  'recorded: conversation': recorded(traces.conversation),
  'recorded: code': recorded(traces.code),
  // Half of the answers have at most 150 tokens, one in a hundred has over 3,000.
  'heavy tail': synthetic((random) => 150 * Math.exp(1.3 * normal(random))),
  'two kinds of answers': synthetic((random) =>
    random.chance(0.85) ? random.whole(50, 150) : random.whole(2_000, 3_500),
  ),
  'longer from the middle on': synthetic((random, progress) => exponential(random, progress < 0.5 ? 150 : 900)),
  // A model does not know the maximum: it only cuts the answer.
  'various maxima': (random, progress) => {
    const { input } = TRAFFIC['recorded: conversation'](random, progress)
    const declared = random.choose([256, 1_024, 4_096, 16_384])
    return { input, output: answerOf(drawn(traces.conversation.output, random), declared), declared }
  },
}
