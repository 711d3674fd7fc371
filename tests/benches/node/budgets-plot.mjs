/**
 * The plot of docs/llm-budgets.md.
 *
 *     npm run bench -- budgets --json target/budgets.json && node tests/benches/node/budgets-plot.mjs target/budgets.json
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { bars } from '../report/charts.mjs'

/** Indexes into the list of colours: for tollgate, and for the others. */
const [OURS, THEIRS] = [1, 4]

const { parts } = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const METERS = { tokens: 'tokens', money: 'money' }
const svg = bars({
  title: 'Used of a budget by 64 parallel streams',
  x: '% of the budget; more than 100 is overspent',
  bars: parts.budgets.results.flatMap((result) =>
    Object.entries(METERS).map(([figure, meter]) => ({
      name: `${result.name.replace(/(then add) at the end|:.*/, '$1')}: ${meter}`,
      value: 100 * result[figure],
      colour: result.name.startsWith('tollgate') ? OURS : THEIRS,
    })),
  ),
  text: (value) => `${value.toFixed(0)} %`,
  width: 440,
})
writeFileSync(fileURLToPath(new URL('../../../docs/plots/budgets.svg', import.meta.url)), svg)
