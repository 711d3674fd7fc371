import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { formatLength, formatNumber, shownTime } from '../../format.js'
import { escapeControls } from '../../terminal.js'
import type { PeakReport } from '../peaks.js'
import type { PlotData } from './plots.js'
import type { KeyReport, PolicyReport, SimulationReport } from './report.js'
import {
  headline,
  nextSteps,
  peaksAdvice,
  peaksSpread,
  peaksTitle,
  percent,
  resultLines,
  suggestionLines,
  warningsOf,
} from './report-text.js'

/** The report as one HTML page. Its Content-Security-Policy blocks other scripts, whatever the log contains. */
export function htmlReport(report: SimulationReport): string {
  const script = asset('report.js')
  const style = asset('report.css')
  const { timeline, policies } = report
  const data: PlotData = { ...timeline, refused: policies.map(({ timeline: refused }) => refused) }
  const sources = `default-src 'none'; script-src ${hashOf(script)}; style-src 'unsafe-inline'`
  const interval = `in intervals of ${formatLength(timeline.stepMs)}`
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${sources}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>What policies would have refused</title>
<style>${style}</style>
</head>
<body>
<main>
<h1>What policies would have refused</h1>
${headline(report)
  .map((line) => `<div class="dim">${escapeHtml(line)}</div>`)
  .join('\n')}
${warningsOf(report)
  .map((warning) => `<div class="warning">${escapeHtml(warning, true)}</div>`)
  .join('\n')}
${summarySection(report)}
${policies.map((policy, index) => policySection(policy, index, interval)).join('\n')}
${report.suggestions.map((suggestion) => suggestionSection(suggestionLines(suggestion))).join('\n')}
${nextSection(report)}
</main>
<footer><p>Replayed by the engine of tollgate at the times of the log. Times are in UTC.</p></footer>
<script type="application/json" id="data">${JSON.stringify(data)}</script>
<script>${script}</script>
</body>
</html>
`
}

/** The result of each policy in a sentence, and the plot of the peaks, which shows the effect of each limit. */
function summarySection(report: SimulationReport): string {
  const { policies, suggestions, peaks, keys } = report
  const results = policies.map((policy) => {
    const [result = ''] = resultLines(policy)
    return `<li class="${policy.refused === 0 ? 'none' : 'some'}"><b>${escapeHtml(policy.name)}</b> ${escapeHtml(result)}</li>`
  })
  const found = suggestions.flatMap((suggestion) => {
    const [goal = '', ...lines] = suggestionLines(suggestion)
    return suggestion.text === null ? [] : [`<li>${escapeHtml(goal)} <b>${escapeHtml(lines[0] ?? '')}</b></li>`]
  })
  const shown = peaks.filter(({ keys }) => keys > 0)
  const advice = shown.map((peak) => `<li>${escapeHtml(capitalised(peaksAdvice(peak)))}</li>`)
  return `<section class="summary">
<h2>Summary</h2>
<ul>
${[...results, ...found, ...advice].join('\n')}
</ul>
${shown.map((peak) => peakPlot(peak, keys[0]?.by ?? '')).join('\n')}
</section>`
}

/** Limits against the share of keys that each would refuse, as bars: they fit a phone, and are a table. */
function peakPlot(peak: PeakReport, by: string): string {
  const { keys, limits, gap } = peak
  const title = capitalised(peaksTitle(peak, by))
  const rows = limits.map(({ limit, keys: above }) => {
    const share = above / keys
    const isGap = gap !== null && limit >= gap.from && limit <= gap.to
    return `<tr${isGap ? ' class="gap"' : ''}><th scope="row">${formatNumber(limit)}</th><td class="number">${percent(share)}</td><td class="bar"><i style="width: ${100 * share}%" aria-hidden="true"></i></td></tr>`
  })
  return `<h3>${escapeHtml(title)}</h3>
<div class="dim">${escapeHtml(peaksSpread(peak))}</div>
<table class="peaks" data-peaks="${peak.windowMs}"><thead><tr><th scope="col">limit</th><th scope="col" class="number">keys refused</th><td></td></tr></thead><tbody>
${rows.join('\n')}
</tbody></table>`
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** The code to paste, and the command that verifies it. */
function nextSection(report: SimulationReport): string {
  const next = nextSteps(report)
  return next === undefined
    ? ''
    : `<section>
<h2>In code</h2>
<div><code>${escapeHtml(next.code.join('\n'), true)}</code></div>
<div class="dim">To check ${next.code.length === 1 ? 'it' : 'them'}:</div>
<div><code>${escapeHtml(next.command)}</code></div>
</section>`
}

function policySection(policy: PolicyReport, index: number, interval: string): string {
  const { name, text, keys, refusedKeys } = policy
  const own =
    text.length === 1 && text[0] === name ? '' : `<div><code>${escapeHtml(text.join('\n'), true)}</code></div>`
  const more =
    refusedKeys > keys.length ? `<p class="dim">And ${formatNumber(refusedKeys - keys.length)} more keys.</p>` : ''
  const plots =
    policy.requests === 0 ? '' : plot('requests', 'Requests', index, interval) + refusedPlot(policy, index, interval)
  return `<section>
<h2>${escapeHtml(name)}</h2>
${own}
${resultLines(policy)
  .map((line) => `<div>${escapeHtml(line)}</div>`)
  .join('\n')}
${plots}
${keys.length === 0 ? '' : `<div class="wide" tabindex="0" role="region" aria-label="Keys that would have been refused by ${escapeHtml(name)}">${keysTable(keys)}</div>`}
${more}
</section>`
}

function refusedPlot({ refused }: PolicyReport, index: number, interval: string): string {
  return refused === 0 ? '' : plot('refused', 'Refused requests', index, interval)
}

function plot(kind: string, title: string, index: number, interval: string): string {
  return `<h3>${title}, ${interval}</h3>
<div role="img" aria-label="${title} over time" data-plot="${kind}" data-policy="${index}"></div>
`
}

function keysTable(keys: readonly KeyReport[]): string {
  const head = ['key', 'requests', 'refused', 'share', 'first refused', 'last refused', 'worst minute']
  const rows = keys.map(({ key, by, requests, refused, first, last, worstMinute }) => {
    const cells = [
      by === 'global' ? '(all together)' : key,
      requests,
      refused,
      percent(refused / requests),
      shownTime(first as number),
      shownTime(last as number),
      `${shownTime(worstMinute?.at as number).slice(0, 16)}: ${formatNumber(worstMinute?.refused as number)}`,
    ]
    return `<tr>${cells.map(cell).join('')}</tr>`
  })
  const isNumber = (name: string) => ['requests', 'refused', 'share'].includes(name)
  const names = head.map((name) => `<th scope="col"${isNumber(name) ? ' class="number"' : ''}>${name}</th>`)
  return `<table><thead><tr>${names.join('')}</tr></thead><tbody>\n${rows.join('\n')}\n</tbody></table>`
}

function cell(value: string | number): string {
  if (typeof value === 'number') {
    return `<td class="number">${formatNumber(value)}</td>`
  }
  return value.endsWith(' %') ? `<td class="number">${value}</td>` : `<td>${escapeHtml(value)}</td>`
}

function suggestionSection([goal, text, ...more]: readonly string[]): string {
  return `<section>
<h2>Suggested ${escapeHtml(goal ?? '')}</h2>
<div><code>${escapeHtml(text ?? '')}</code></div>
${more.map((line) => `<div class="dim">${escapeHtml(line)}</div>`).join('\n')}
</section>`
}

/** Escapes a text for HTML, including characters that change the direction of writing. */
function escapeHtml(text: string, hasLines = false): string {
  const shown = hasLines ? text.split('\n').map(escapeControls).join('\n') : escapeControls(text)
  return shown.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}

function hashOf(script: string): string {
  return `'sha256-${createHash('sha256').update(script).digest('base64')}'`
}

/** A file that scripts/bundle.mjs has put next to the program. */
function asset(name: string): string {
  return readFileSync(join(__dirname, name), 'utf8').trim()
}
