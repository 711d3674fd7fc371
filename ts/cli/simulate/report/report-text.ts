import { grouped, printable, shortened, table } from '../../terminal.js'
import { shownSpan, shownTime } from '../log/times.js'
import type { Suggestion } from '../suggest.js'
import type { PolicyReport, Report } from './report.js'

/** The widest key that a table shows. */
const KEY_COLUMNS = 48

/** The report for people at a terminal. */
export function textReport(report: Report): string {
  const parts = [head(report), ...report.policies.map(policyText)]
  return [...parts, suggestionsText(report.suggestions)].filter((part) => part !== '').join('\n')
}

/** The first lines: what the log is, and what of it is doubtful. */
function head(report: Report): string {
  return [...headline(report), ...doubtsOf(report)].map((line) => `${line}\n`).join('')
}

/** What the log is, in lines: also for the HTML. */
export function headline({ files, lines, requests, from, to, keys }: Report): string[] {
  const kinds = keys.map(({ by, keys }) => `${counted(keys, 'key')} (${printable(by)})`).join(', ')
  const what = `${files.map(printable).join(', ')}: ${counted(requests, 'request')} in ${counted(lines, 'line')}, ${kinds}`
  return from === null || to === null
    ? [what]
    : [what, `${shownTime(from)} to ${shownTime(to)} UTC (${shownSpan(to - from)})`]
}

/** What of a log is not as it should be, a sentence each: also for the HTML. */
export function doubtsOf({ broken, order, keys, withoutCost, lines }: Report): string[] {
  const doubts: string[] = []
  if (broken.lines > 0) {
    const told = broken.first.map(({ file, line, reason }) => `  ${file}:${line}: ${reason}`)
    const more = broken.lines > told.length ? [`  and ${grouped(broken.lines - told.length)} more`] : []
    doubts.push(
      [`${counted(broken.lines, 'line')} of ${grouped(lines)} could not be read:`, ...told, ...more]
        .map(printable)
        .join('\n'),
    )
  }
  if (order.disordered > 0) {
    doubts.push(disorder(order))
  }
  for (const { by, requestsWithout, tooLong } of keys) {
    if (requestsWithout > tooLong) {
      doubts.push(
        `${counted(requestsWithout - tooLong, 'request')} had no ${printable(by)}, and were not judged by it.`,
      )
    }
    if (tooLong > 0) {
      doubts.push(
        `${counted(tooLong, 'request')} had a key (${printable(by)}) above 1024 bytes, which tollgate takes for an error.`,
      )
    }
  }
  if (withoutCost > 0) {
    doubts.push(`${counted(withoutCost, 'request')} had no readable cost, and were counted as 1.`)
  }
  return doubts
}

function disorder({ disordered, furthestMs, late, firstLate, windowMs }: Report['order']): string {
  const behind = `${counted(disordered, 'request')} stood behind a newer one, by up to ${shownSpan(furthestMs)}`
  if (firstLate === null) {
    return `${behind}: all were put in order.`
  }
  const first = printable(`${firstLate.file}:${firstLate.line}`)
  const rule = `more than ${shownSpan(windowMs)} behind, and replayed as if at the end of that, as a limiter's clock never goes back`
  return `${behind}: they were put in order, but for\n  ${grouped(late)} that were ${rule} (first: ${first}).\n  --reorder sets how far is looked.`
}

function policyText(policy: PolicyReport): string {
  const { name, text, keys } = policy
  const own = text.length === 1 && text[0] === name ? '' : text.map((line) => `  ${printable(line)}\n`).join('')
  const verdict = verdictOf(policy).map((line) => `  ${line}\n`)
  return `${printable(name)}\n${own}${verdict.join('')}${keys.length === 0 ? '' : keysTable(policy)}`
}

/** What a policy would have done, in lines: also for the HTML. */
export function verdictOf({
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
  const what = `would have refused ${grouped(refused)} of ${counted(requests, 'request')} (${percent(share)}), of ${counted(refusedKeys, 'key')}`
  const when = `first ${shownTime(first)}, last ${shownTime(last)}, worst minute ${shownTime(worstMinute.at).slice(0, 16)} with ${grouped(worstMinute.refused)}`
  const limits = Object.entries(byLimit)
  const by =
    limits.length < 2 ? '' : `; by limit: ${limits.map(([name, count]) => `${name} ${grouped(count)}`).join(', ')}`
  const never =
    impossible === 0 ? '' : `; ${grouped(impossible)} of them cost more than the limit, and never could pass`
  return [what, `${when}${by}${never}`]
}

function keysTable({ keys, refusedKeys }: PolicyReport): string {
  const head = ['key', 'requests', 'refused', '', 'first refused', 'last refused', 'worst minute', '']
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
      ? `  and ${counted(refusedKeys - keys.length, 'key')} more; --top tells how many are named\n`
      : ''
  return table([head, ...rows]) + more
}

function suggestionsText(suggestions: readonly Suggestion[]): string {
  return suggestions.map((suggestion) => `${sentencesOf(suggestion).join('\n  ')}\n`).join('')
}

/** What a search found, in sentences: also for the HTML. */
export function sentencesOf({
  name,
  goal,
  text,
  refused,
  refusedShare,
  refusedKeys,
  tooSmall,
  replays,
}: Suggestion): string[] {
  const asked = `at most ${percent(goal.share)} of ${goal.of}`
  if (text === null) {
    return [`to refuse ${asked} by ${printable(name)}:`, 'no number that it takes is large enough']
  }
  const does = `refuses ${counted(refused, 'request')} (${percent(refusedShare)}), of ${counted(refusedKeys, 'key')}`
  const search = tooSmall === null ? 'the smallest number there is' : `${grouped(tooSmall)} refuses more`
  return [
    `to refuse ${asked} by ${printable(name)}:`,
    printable(text),
    `${does}; ${search} (found in ${counted(replays, 'replay')})`,
  ]
}

/** A share of 1 as people read it: three digits, and never 0 % for what is something. */
export function percent(share: number): string {
  const value = share * 100
  return `${value === 0 || value === 100 ? value : value < 0.001 ? '< 0.001' : Number(value.toPrecision(3))} %`
}

/** `1 line`, `2,000 lines`. */
function counted(count: number, noun: string): string {
  return `${grouped(count)} ${noun}${count === 1 ? '' : 's'}`
}
