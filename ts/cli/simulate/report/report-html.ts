import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { escapeControls, grouped } from '../../terminal.js'
import { shownSpan, shownTime } from '../log/times.js'
import type { PlotData } from './plots.js'
import type { KeyReport, PolicyReport, SimulationReport } from './report.js'
import { headline, percent, resultLines, suggestionLines, warningsOf } from './report-text.js'

/**
 * The report as one HTML page with the script of its plots. The page loads nothing. Its
 * Content-Security-Policy makes the browser enforce that, and blocks any other script, whatever the
 * log contains.
 */
export function htmlReport(report: SimulationReport): string {
  const script = asset('report.js')
  const style = asset('report.css')
  const { timeline, policies } = report
  const data: PlotData = { ...timeline, refused: policies.map(({ timeline: refused }) => refused) }
  const sources = `default-src 'none'; script-src ${hashOf(script)}; style-src 'unsafe-inline'`
  const interval = `in intervals of ${shownSpan(timeline.stepMs)}`
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
${policies.map((policy, index) => policySection(policy, index, interval)).join('\n')}
${report.suggestions.map((suggestion) => suggestionSection(suggestionLines(suggestion))).join('\n')}
</main>
<footer><p>Replayed by the engine of tollgate at the times of the log. Times are in UTC.</p></footer>
<script type="application/json" id="data">${JSON.stringify(data)}</script>
<script>${script}</script>
</body>
</html>
`
}

function policySection(policy: PolicyReport, index: number, interval: string): string {
  const { name, text, keys, refusedKeys } = policy
  const own =
    text.length === 1 && text[0] === name ? '' : `<div><code>${escapeHtml(text.join('\n'), true)}</code></div>`
  const more =
    refusedKeys > keys.length ? `<p class="dim">And ${grouped(refusedKeys - keys.length)} more keys.</p>` : ''
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
      `${shownTime(worstMinute?.at as number).slice(0, 16)}: ${grouped(worstMinute?.refused as number)}`,
    ]
    return `<tr>${cells.map(cell).join('')}</tr>`
  })
  const isNumber = (name: string) => ['requests', 'refused', 'share'].includes(name)
  const names = head.map((name) => `<th scope="col"${isNumber(name) ? ' class="number"' : ''}>${name}</th>`)
  return `<table><thead><tr>${names.join('')}</tr></thead><tbody>\n${rows.join('\n')}\n</tbody></table>`
}

function cell(value: string | number): string {
  if (typeof value === 'number') {
    return `<td class="number">${grouped(value)}</td>`
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

/** A file that scripts/build-cli.mjs has put next to the program. */
function asset(name: string): string {
  return readFileSync(join(__dirname, name), 'utf8').trim()
}
