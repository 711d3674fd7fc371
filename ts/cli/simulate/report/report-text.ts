import { formatLength, formatNumber, shownTime } from '../../format.js'
import { formatPolicyCode } from '../../policy-text.js'
import { escapeControls, type Paint, plain, shellWord, shortened, table } from '../../terminal.js'
import type { PeakReport } from '../peaks.js'
import type { Suggestion } from '../suggest.js'
import type { PolicyReport, SimulationReport } from './report.js'

const BAR_COLUMNS = 30

const KEY_COLUMNS = 48

export function textReport(report: SimulationReport, paint: Paint = plain, columns?: number): string {
  const policies = report.policies.map((policy) => policyText(policy, paint, columns))
  const parts = [
    head(report, paint),
    comparison(report, paint, columns),
    ...policies,
    peaksText(report, paint),
    suggestionsText(report, paint),
  ]
  return parts.filter((part) => part !== '').join('\n')
}

function head(report: SimulationReport, paint: Paint): string {
  const [summary = '', ...more] = headline(report)
  const warnings = warningsOf(report).map((warning) => paint('yellow', warning))
  return [paint('bold', summary), ...more, ...warnings].map((line) => `${line}\n`).join('')
}

function comparison({ policies }: SimulationReport, paint: Paint, columns?: number): string {
  if (policies.length < 2) {
    return ''
  }
  const head = ['policy', 'refused', '', 'keys refused', 'worst minute'].map((name) => paint('bold', name))
  const rows = policies.map(({ name, refused, share, refusedKeys, worstMinute }) => [
    escapeControls(name),
    refused,
    refusedShare(share, paint),
    refusedKeys,
    worstMinute?.refused ?? 0,
  ])
  return table([head, ...rows], { columns, cut: [0] })
}

/** A share of refused requests, in a colour if there are any. */
function refusedShare(share: number, paint: Paint): string {
  return share === 0 ? paint('green', percent(share)) : paint(share < 0.01 ? 'yellow' : 'red', percent(share))
}

/** A summary of the log, in lines. The HTML report uses it, and the other exports of this file, too. */
export function headline({ files, lines, requests, from, to, keys }: SimulationReport): string[] {
  const kinds = keys.map(({ by, keys }) => `${counted(keys, 'key')} (${escapeControls(by)})`).join(', ')
  const summary = `${files.map(escapeControls).join(', ')}: ${counted(requests, 'request')} in ${counted(lines, 'line')}, ${kinds}`
  return from === null || to === null
    ? [summary]
    : [summary, `${shownTime(from)} to ${shownTime(to)} UTC (${formatLength(to - from)})`]
}

/** Warnings about the log, one for each kind of problem. */
export function warningsOf({ broken, order, keys, withoutCost, lines }: SimulationReport): string[] {
  const warnings: string[] = []
  if (broken.lines > 0) {
    const listed = broken.first.map(({ file, line, reason }) => `  ${file}:${line}: ${reason}`)
    const more = broken.lines > listed.length ? [`  and ${formatNumber(broken.lines - listed.length)} more`] : []
    warnings.push(
      [`${counted(broken.lines, 'line')} of ${formatNumber(lines)} could not be read:`, ...listed, ...more]
        .map(escapeControls)
        .join('\n'),
    )
  }
  if (order.disordered > 0) {
    warnings.push(orderWarning(order))
  }
  for (const { by, requestsWithout, tooLong } of keys) {
    if (requestsWithout > tooLong) {
      warnings.push(
        `${counted(requestsWithout - tooLong, 'request')} had no ${escapeControls(by)}, and were ignored by policies with that key.`,
      )
    }
    if (tooLong > 0) {
      warnings.push(
        `${counted(tooLong, 'request')} had a key (${escapeControls(by)}) above 1024 bytes, which tollgate rejects.`,
      )
    }
  }
  if (withoutCost > 0) {
    warnings.push(`${counted(withoutCost, 'request')} had no readable cost, and were counted as 1.`)
  }
  return warnings
}

function orderWarning({ disordered, furthestMs, late, firstLate, windowMs }: SimulationReport['order']): string {
  const behind = `${counted(disordered, 'request')} came after a newer one, by up to ${formatLength(furthestMs)}`
  if (firstLate === null) {
    return `${behind}: all were sorted.`
  }
  const first = escapeControls(`${firstLate.file}:${firstLate.line}`)
  const rule = `more than ${formatLength(windowMs)} behind, and were replayed at the end of that window, as a limiter's clock never goes back`
  return `${behind}: they were sorted, except\n  ${formatNumber(late)} that were ${rule} (first: ${first}).\n  --reorder sets the window.`
}

function policyText(policy: PolicyReport, paint: Paint, columns?: number): string {
  const { name, text, keys, refused } = policy
  const own = text.length === 1 && text[0] === name ? '' : text.map((line) => `  ${escapeControls(line)}\n`).join('')
  const [summary = '', ...more] = resultLines(policy)
  const result = [paint(refused === 0 ? 'green' : 'red', summary), ...more].map((line) => `  ${line}\n`)
  const table = keys.length === 0 ? '' : keysTable(policy, paint, columns)
  return `${paint('bold', escapeControls(name))}\n${own}${result.join('')}${table}`
}

export function resultLines({
  requests,
  refused,
  share,
  refusedKeys,
  first,
  last,
  worstMinute,
  impossible,
  byLimit,
}: PolicyReport): string[] {
  if (first === null || last === null || worstMinute === null) {
    return [`would have refused none of ${counted(requests, 'request')}`]
  }
  const summary = `would have refused ${formatNumber(refused)} of ${counted(requests, 'request')} (${percent(share)}), of ${counted(refusedKeys, 'key')}`
  const when = `first ${shownTime(first)}, last ${shownTime(last)}, worst minute ${shownTime(worstMinute.at).slice(0, 16)} with ${formatNumber(worstMinute.refused)}`
  const limits = Object.entries(byLimit)
  const by =
    limits.length < 2 ? '' : `; by limit: ${limits.map(([name, count]) => `${name} ${formatNumber(count)}`).join(', ')}`
  const impossibleText =
    impossible === 0 ? '' : `; ${formatNumber(impossible)} of them cost more than the limit, and could never pass`
  return [summary, `${when}${by}${impossibleText}`]
}

function keysTable({ keys, refusedKeys }: PolicyReport, paint: Paint, columns?: number): string {
  const names = ['key', 'requests', 'refused', '', 'first refused', 'last refused', 'worst minute', '']
  const head = names.map((name) => paint('bold', name))
  const rows = keys.map(({ key, by, requests, refused, first, last, worstMinute }) => [
    by === 'global' ? '(all together)' : shortened(key, KEY_COLUMNS),
    requests,
    refused,
    percent(refused / requests),
    shownTime(first as number),
    shownTime(last as number),
    shownTime(worstMinute?.at as number).slice(0, 16),
    worstMinute?.refused as number,
  ])
  const more =
    refusedKeys > keys.length
      ? `  and ${counted(refusedKeys - keys.length, 'key')} more; --top sets how many are listed\n`
      : ''
  // In a narrow terminal the times are left out first, then the worst minute.
  return table([head, ...rows], { columns, cut: [0], omit: [5, 4, 6, 7] }) + more
}

/** The peaks of the keys, with limits that separate some keys from the rest. */
function peaksText({ peaks, keys: [by] }: SimulationReport, paint: Paint): string {
  return peaks
    .filter(({ keys }) => keys > 0)
    .map((report) => peakText(report, by?.by ?? '', paint))
    .join('\n')
}

function peakText(report: PeakReport, by: string, paint: Paint): string {
  const { keys, limits } = report
  const head = [paint('bold', 'limit'), paint('bold', 'keys above'), '', '']
  const rows = limits.map(({ limit, keys: above }) => {
    return [limit, above, percent(above / keys), '#'.repeat(Math.ceil((above / keys) * BAR_COLUMNS))]
  })
  const title = paint('bold', peaksTitle(report, by))
  return `${title}\n  ${peaksSpread(report)}\n${table([head, ...rows])}  ${paint('bold', peaksAdvice(report))}\n`
}

export function peaksTitle({ windowMs }: PeakReport, by: string): string {
  return `the most requests of a key (${escapeControls(by)}) in any ${formatLength(windowMs)}`
}

export function peaksSpread({ keys, quantiles: { p50, p90, p99, max } }: PeakReport): string {
  return `half of ${counted(keys, 'key')} at most ${formatNumber(p50)}, 90 % at most ${formatNumber(p90)}, 99 % at most ${formatNumber(p99)}, the largest ${formatNumber(max)}`
}

/** The limits that separate some keys from the rest. */
export function peaksAdvice({ windowMs, keys, gap }: PeakReport): string {
  if (gap === null) {
    return 'no limit separates some keys clearly from the rest'
  }
  const others = `, and none of the other ${formatNumber(keys - gap.keys)}`
  return `any limit from ${formatNumber(gap.from)} to ${formatNumber(gap.to)} in every ${formatLength(windowMs)} refuses ${counted(gap.keys, 'key')}${others}`
}

function suggestionsText(report: SimulationReport, paint: Paint): string {
  const blocks = report.suggestions.map((suggestion) => {
    const [goal = '', text = '', ...more] = suggestionLines(suggestion)
    return `${[goal, paint('bold', text), ...more].join('\n  ')}\n`
  })
  const next = nextSteps(report)
  if (next === undefined) {
    return blocks.join('')
  }
  const code = next.code.map((line) => `  ${line}\n`).join('')
  return `${blocks.join('')}\nin code:\n${code}\nto check ${next.code.length === 1 ? 'it' : 'them'}:\n  ${next.command}\n`
}

/** The code of the suggested policies, and the command that verifies them; `undefined` if none was found. */
export function nextSteps({
  suggestions,
  files,
  keys,
}: SimulationReport): { readonly code: readonly string[]; readonly command: string } | undefined {
  const found = suggestions.flatMap(({ policy, text, inGap }) => [
    ...(policy === null || text === null ? [] : [{ policy, text, comment: '' }]),
    ...(inGap === null || inGap.text === text
      ? []
      : [{ ...inGap, comment: ` // in the gap: ${counted(inGap.busyKeys, 'key')} sent more` }]),
  ])
  if (found.length === 0) {
    return undefined
  }
  const by = keys.length === 1 ? ` --key ${shellWord(keys[0]?.by ?? 'ip')}` : ''
  const policies = found.map(({ text }) => ` --policy ${shellWord(text)}`).join('')
  return {
    code: found.map(({ policy, comment }) => `new RateLimiter(${formatPolicyCode(policy)})${comment}`),
    command: `npx tollgate-cli simulate ${files.map(shellWord).join(' ')}${policies}${by}`,
  }
}

export function suggestionLines({
  name,
  goal,
  text,
  refused,
  refusedShare,
  refusedKeys,
  tooSmall,
  replays,
}: Suggestion): string[] {
  const goalText = `at most ${percent(goal.share)} of ${goal.of}`
  if (text === null) {
    return [`to refuse ${goalText} by ${escapeControls(name)}:`, 'no valid number is large enough']
  }
  const does = `refuses ${counted(refused, 'request')} (${percent(refusedShare)}), of ${counted(refusedKeys, 'key')}`
  const search = tooSmall === null ? 'the smallest possible number' : `${formatNumber(tooSmall)} refuses more`
  return [
    `to refuse ${goalText} by ${escapeControls(name)}:`,
    escapeControls(text),
    `${does}; ${search} (found in ${counted(replays, 'replay')})`,
  ]
}

/** A share in percent with three digits, and never 0 % for more than nothing. */
export function percent(share: number): string {
  const value = share * 100
  return `${value === 0 || value === 100 ? value : value < 0.001 ? '< 0.001' : Number(value.toPrecision(3))} %`
}

/** `1 line`, `2,000 lines`. */
function counted(count: number, noun: string): string {
  return `${formatNumber(count)} ${noun}${count === 1 ? '' : 's'}`
}
