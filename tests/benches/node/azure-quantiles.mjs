/**
 * Makes `azure-quantiles.json`, and prints how many answers of the original traces an estimate covers:
 *
 *     node tests/benches/node/azure-quantiles.mjs AzureLLMInferenceTrace_conv.csv AzureLLMInferenceTrace_code.csv
 *
 * The files are in the folder `data` of https://github.com/Azure/AzurePublicDataset.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { UsageEstimator } from 'tollgate/estimate'

const STEPS = 100

/** The maximum for which the simulation's calls ask: no answer of the traces is longer. */
const DECLARED = 4_096

function quantilesOf(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b)
  return Array.from({ length: STEPS + 1 }, (_, step) => sorted[Math.round((step / STEPS) * (sorted.length - 1))])
}

/** Estimates each answer from those before it, in the order of the trace. */
function coverageOf(answers, quantile) {
  const estimates = new UsageEstimator({ quantile })
  let [covered, reserved, used] = [0, 0, 0]
  for (const answer of answers) {
    const estimate = estimates.estimate('a', DECLARED)
    covered += answer <= estimate ? 1 : 0
    reserved += estimate
    used += answer
    estimates.record('a', answer)
  }
  const percent = (share) => `${(100 * share).toFixed(1)} %`
  return `covers ${percent(covered / answers.length)}, reserves ${(reserved / used).toFixed(2)} times the usage`
}

const traces = {}
for (const [index, name] of ['conversation', 'code'].entries()) {
  const [, ...lines] = readFileSync(process.argv[2 + index], 'utf8')
    .trim()
    .split(/\r?\n/)
  const [inputs, outputs] = [1, 2].map((column) => lines.map((line) => Number(line.split(',')[column])))
  traces[name] = { calls: lines.length, input: quantilesOf(inputs), output: quantilesOf(outputs) }
  for (const quantile of [0.5, 0.9, 0.99]) {
    console.log(`${name}, ${lines.length} answers, quantile ${quantile}: ${coverageOf(outputs, quantile)}`)
  }
}
const record = {
  source: 'Azure LLM inference trace 2023, https://github.com/Azure/AzurePublicDataset',
  licence: 'CC-BY 4.0',
  paper: 'Patel et al., Splitwise: Efficient generative LLM inference using phase splitting, ISCA 2024',
  change: 'the quantiles from 0 to 1 in steps of 0.01 of the context tokens and of the generated tokens',
  traces,
}
writeFileSync(fileURLToPath(new URL('azure-quantiles.json', import.meta.url)), `${JSON.stringify(record, null, 2)}\n`)
