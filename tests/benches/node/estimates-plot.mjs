/**
 * The plot and the tables of docs/estimates.md.
 *
 *     npm run bench -- estimates --json target/estimates.json && node tests/benches/node/estimates-plot.mjs target/estimates.json
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { LINES, render } from '../../../docs/plots/charts.mjs'
import { COLUMNS } from './estimates.mjs'

const DOCS = new URL('../../../docs/', import.meta.url)
const TEXT = '#333333'
const FONT = 13

/** Narrow, because a page on a phone shrinks a wider picture with its text. */
const WIDTH = 500
const PANEL = 330
const HEAD = 84

/** The ways of the plot, with their colours. */
const SHOWN = {
  'declared maximum': LINES[0],
  'quantile 0.5': LINES[4],
  'quantile 0.9': LINES[1],
  'quantile 0.99': LINES[5],
  'quantile 0.5, extend': LINES[2],
}

const PANELS = [
  { title: 'calls refused that would have fit, %', figure: 'needless' },
  { title: 'used beyond the limit, % of the budget', figure: 'overspent' },
]

const { results } = JSON.parse(readFileSync(process.argv[2], 'utf8')).parts.estimates
const traffic = [...new Set(results.map((row) => row.traffic))]
const rowOf = (name, way) => results.find((row) => row.traffic === name && row.way === way)
const cells = (texts) => `| ${texts.join(' | ')} |\n`
const rule = (columns) => `|---|${'---:|'.repeat(columns)}\n`

writeFileSync(fileURLToPath(new URL('plots/estimates.svg', DOCS)), plot())
const page = fileURLToPath(new URL('estimates.md', DOCS))
const tables = { conversation: tableOfWays('recorded: conversation'), traffic: tableOfTraffic() }
const text = readFileSync(page, 'utf8')
const marked = /(<!-- figures: ([a-z]+) -->\n)(?:.*?)(<!-- end -->)/gs
writeFileSync(
  page,
  text.replace(marked, (_, begin, name, end) => `${begin}${tables[name]}${end}`),
)

function plot() {
  return render(
    {
      title: {
        text: 'A budget of tokens, and what calls reserve of it',
        left: 'center',
        top: 6,
        textStyle: { fontSize: 15, color: TEXT },
      },
      legend: {
        top: 32,
        itemGap: 14,
        itemWidth: 16,
        data: Object.keys(SHOWN),
        textStyle: { fontSize: FONT, color: TEXT },
      },
      grid: PANELS.map((_, index) => ({ left: 186, right: 44, top: HEAD + 50 + index * PANEL, height: PANEL - 86 })),
      xAxis: PANELS.map((_, index) => ({
        type: 'value',
        min: 0,
        gridIndex: index,
        axisLabel: { fontSize: FONT, color: TEXT },
        splitLine: { lineStyle: { color: '#e4e4e4' } },
      })),
      yAxis: PANELS.map(({ title }, index) => ({
        type: 'category',
        inverse: true,
        data: traffic,
        gridIndex: index,
        name: title,
        nameLocation: 'start',
        nameTextStyle: { fontSize: FONT, color: TEXT, align: 'left', padding: [0, 0, 6, -170] },
        axisLabel: { fontSize: FONT, color: TEXT, interval: 0 },
        axisTick: { show: false },
      })),
      series: PANELS.flatMap(({ figure }, index) =>
        Object.entries(SHOWN).map(([way, color]) => ({
          type: 'bar',
          name: way,
          xAxisIndex: index,
          yAxisIndex: index,
          barWidth: 5,
          data: traffic.map((name) => Number((100 * rowOf(name, way)[figure]).toFixed(1))),
          itemStyle: { color },
        })),
      ),
    },
    { width: WIDTH, height: HEAD + PANELS.length * PANEL },
  )
}

/** All ways with one traffic. */
function tableOfWays(name) {
  const rows = results.filter((row) => row.traffic === name && !row.way.endsWith('of the share'))
  const head = cells(['reserved for the answer', ...COLUMNS.map(([title]) => title)])
  return head + rule(COLUMNS.length) + rows.map((row) => cells([row.way, ...COLUMNS.map(([, of]) => of(row))])).join('')
}

/** Some ways with each traffic. */
function tableOfTraffic() {
  const figures = [
    ['declared maximum', 'needless', 'declared maximum: refused, but would have fit'],
    ['quantile 0.9', 'needless', 'quantile 0.9: the same'],
    ['quantile 0.9', 'overspent', 'overspent'],
    ['quantile 0.5, extend', 'needless', 'quantile 0.5, extend: refused, but would have fit'],
    ['quantile 0.5, extend', 'cut', 'cut short'],
    ['quantile 0.9 of the share', 'needless', 'quantile 0.9 of the share: refused, but would have fit'],
  ]
  const percent = (share) => `${(100 * share).toFixed(1)} %`
  const rows = traffic.map((name) =>
    cells([name, ...figures.map(([way, figure]) => percent(rowOf(name, way)[figure]))]),
  )
  return cells(['traffic', ...figures.map(([, , title]) => title)]) + rule(figures.length) + rows.join('')
}
