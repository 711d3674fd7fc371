import type { Decision } from '../../api/decision.js'
import type { OverrideLimit } from '../../policies/definition.js'
import { formatDuration, formatLength, formatNumber, formatRate, formatShare, formatTime } from '../format.js'
import { escapeControls, type Paint, plain } from '../terminal.js'
import { holdsAny, type KeyInspection } from './inspect.js'
import { listed } from './policies.js'
import { type KeyOverride, type KeyState, limitOfOverride } from './state.js'

/** The text of an inspection, with notes at its end. */
export function formatInspection(inspection: KeyInspection, paint = plain, notes: readonly string[] = []): string {
  const at = Date.parse(inspection.at)
  const lines = [
    `${paint('bold', formatKey(inspection.key))} under ${inspection.prefix} at ${inspection.server}, ${formatTime(at)} by its clock`,
    '',
  ]
  for (const state of inspection.states) {
    const { policy, algorithm, layout, tag, tier } = state
    const how = layout === undefined || layout === 'list' ? algorithm : `${algorithm} (${layout})`
    const more = [
      tier === undefined ? '' : `, with the numbers of the tier ${escapeControls(tier)}`,
      tag === undefined ? '' : `, tag ${escapeControls(tag)}`,
    ]
    lines.push(`${paint('bold', escapeControls(policy))}: ${how}${more.join('')}`)
    lines.push(...formatState(state, at, paint).map((line) => `  ${line}`))
  }
  const { reservations, ids, leases, banRule, tiers, decision, scan, policiesFrom } = inspection
  if (inspection.states.length === 0 && !holdsAny(inspection)) {
    lines.push(formatAbsence(scan))
  }
  if (reservations !== undefined) {
    const { open, endInMs } = reservations
    lines.push(
      `${open === 1 ? '1 reservation is' : `${formatNumber(open)} reservations are`} open, for ${formatDuration(endInMs)} at most`,
    )
  }
  if (ids !== undefined) {
    const { remembered, endInMs } = ids
    lines.push(
      `${remembered === 1 ? '1 id of a call is' : `${formatNumber(remembered)} ids of calls are`} remembered, for ${formatDuration(endInMs)} at most`,
    )
  }
  if (leases !== undefined && inspection.states.length > 0) {
    const times = leases.map(escapeControls).join(' or ')
    lines.push(`Limiters of this prefix have leases of ${times}: used units include those that processes hold`)
  }
  if (banRule !== undefined) {
    lines.push(`Limiters of this prefix ban keys: ${escapeControls(banRule)}`)
  }
  if (decision !== undefined) {
    const origin = policiesFrom === 'registry' ? 'registered' : 'given'
    lines.push(
      `By the ${origin} ${Object.keys(decision.policies).length > 1 ? 'policies' : 'policy'}: ${formatDecision(decision)}`,
    )
  } else if (tiers !== undefined) {
    lines.push(`The decision on a call now depends on the tier: add --tier, ${listed(tiers)}`)
  }
  if (scan !== undefined && inspection.states.length > 0) {
    lines.push('(It has no state under the known names: it was found by a scan.)')
  }
  return `${[...lines, ...notes.map((note) => `Note: ${note}`)].join('\n')}\n`
}

export function formatKey(key: KeyInspection['key']): string {
  if (typeof key === 'string') {
    return escapeControls(key)
  }
  const parts = Object.entries(key).map(([kind, part]) =>
    part === true ? `${kind} (all calls)` : `${kind} ${escapeControls(part)}`,
  )
  return parts.join(', ')
}

/** A key is fresh only if it has no state under any name. */
function formatAbsence(scan: KeyInspection['scan']): string {
  if (scan === undefined) {
    return 'The key has no state under the known names; other names were not scanned.'
  }
  return scan.isComplete
    ? 'The key has no state: it is fresh.'
    : 'No state of the key was found yet: the scan of all keys ran out of time; increase --scan.'
}

function formatState(state: KeyState, at: number, paint: Paint): string[] {
  if (!state.isReadable) {
    return ['it holds a value that no limiter has written: calls on it fail with STORE_ERROR']
  }
  const { used, isUsedExact, rate, windowMs, windowEndsInMs, resetInMs, bookedForMs, blockedForMs } = state
  const { entries = 0 } = state
  const lines: string[] = []
  if (blockedForMs !== undefined) {
    const how = state.ban?.isInForce === true ? `banned (ban ${state.ban.step})` : 'blocked'
    lines.push(paint('red', `${how} for ${formatDuration(blockedForMs)}, until ${formatTime(at + blockedForMs)}`))
  }
  if (state.ban?.isInForce === false) {
    lines.push(`the last ban was ban ${state.ban.step}; forgotten in ${formatDuration(state.ban.forgottenInMs)}`)
  }
  if (state.strikes !== undefined) {
    const { count, windowEndsInMs } = state.strikes
    lines.push(`${count === 1 ? '1 strike' : `${count} strikes`}, forgotten in ${formatDuration(windowEndsInMs)}`)
  }
  if (state.owed !== undefined) {
    const { units, paidInMs } = state.owed
    lines.push(
      `owes ${formatNumber(units)} ${units === 1 ? 'unit' : 'units'}, paid in ${formatDuration(paidInMs)} at the latest`,
    )
  }
  if (state.override !== undefined) {
    const { forMs } = state.override
    const numbers = formatOverride(state.algorithm, state.override)
    lines.push(`override: ${numbers}; for ${formatDuration(forMs)}, until ${formatTime(at + forMs)}`)
  }
  const limit = (state.override === undefined ? undefined : limitOfOverride(state.override)) ?? state.limit
  const of = limit === undefined ? '' : ` of ${formatNumber(limit)} (${formatShare(used, limit)})`
  const within = windowMs === undefined ? '' : ` within ${formatLength(windowMs)}`
  const upTo = isUsedExact ? '' : 'at most '
  lines.push(`used: ${upTo}${formatNumber(used)}${of}${within}`)
  if (rate !== undefined) {
    const shown = formatRate(rate.units, rate.periodMs)
    const changed = state.override === undefined ? undefined : rateOfOverride(state.override)
    // The state has the numbers of the call that wrote it.
    const until = changed === undefined || changed === shown ? '' : ' until the next call, which applies the override'
    lines.push(`${state.layout === 'interval' ? 'refilled' : 'drains'}: ${shown}${until}`)
  }
  if (windowEndsInMs !== undefined) {
    lines.push(`the window ends in ${formatDuration(windowEndsInMs)}, at ${formatTime(at + windowEndsInMs)}`)
  } else if (resetInMs !== undefined) {
    lines.push(`fresh in ${formatDuration(resetInMs)}`)
  }
  if (state.oldestAgoMs !== undefined && state.newestAgoMs !== undefined) {
    const [oldest, newest] = [state.oldestAgoMs, state.newestAgoMs].map(formatDuration)
    lines.push(
      `${entries === 1 ? '1 entry' : `${formatNumber(entries)} entries`}, the oldest ${oldest} old, the newest ${newest}`,
    )
  }
  if (state.algorithm === 'concurrency') {
    const held = entries === 1 ? '1 permit is held' : `${formatNumber(entries)} permits are held`
    lines.push(`${held}; holders renew their permits`)
  }
  if (bookedForMs !== undefined) {
    lines.push(`reserved slots: calls wait, the last for ${formatDuration(bookedForMs)}`)
  }
  return lines
}

/** The rate of an override; `undefined` if its algorithm has none. */
function rateOfOverride({ numbers }: KeyOverride): string | undefined {
  const { limit, periodMs, tokens, units, everyMs } = numbers as Partial<Record<string, number>>
  if (limit !== undefined && periodMs !== undefined) {
    return formatRate(limit, periodMs)
  }
  return everyMs === undefined ? undefined : formatRate(tokens ?? units ?? 1, everyMs)
}

/** For example `gcra 5 per minute, burst 10`. */
function formatOverride(algorithm: string, { numbers }: KeyOverride): string {
  const { limit, limits, periodMs, burst, capacity, initial, debt, tokens, units, everyMs, windowMs } =
    numbers as Partial<Record<string, number>> & { limits?: readonly OverrideLimit[] }
  if (limits !== undefined) {
    const all = limits.map((one) => `${formatNumber(one.limit)} within ${formatLength(one.windowMs)}`)
    return `${algorithm} ${all.join(', ')}`
  }
  if (limit !== undefined && periodMs !== undefined) {
    return `${algorithm} ${formatRate(limit, periodMs)}, burst ${formatNumber(burst ?? limit)}`
  }
  if (capacity !== undefined && everyMs !== undefined) {
    const more = [
      initial === undefined ? [] : [`initial ${formatNumber(initial)}`],
      debt === undefined ? [] : [`debt ${formatNumber(debt)}`],
    ]
    const rate = formatRate(tokens ?? units ?? 1, everyMs)
    return [`${algorithm} ${rate}, capacity ${formatNumber(capacity)}`, ...more.flat()].join(', ')
  }
  return `${algorithm} ${formatNumber(limit ?? 0)}${windowMs === undefined ? '' : ` within ${formatLength(windowMs)}`}`
}

export function formatDecision(decision: Decision): string {
  const { status, policy, remaining, capacity, retryAfterMs, policies } = decision
  const retry = retryAfterMs === null || retryAfterMs === 0 ? '' : `, again in ${formatDuration(retryAfterMs)}`
  const outcome = {
    allowed: 'allowed',
    'allowed-last': 'allowed, the last one',
    refused: 'refused',
    blocked: 'blocked',
    impossible: 'impossible',
  }[status]
  const names = Object.entries(policies)
  const remainingText =
    names.length < 2
      ? `${formatNumber(remaining)} of ${formatNumber(capacity)} left`
      : names
          .map(([name, one]) => `${name} ${formatNumber(one.remaining)} of ${formatNumber(one.capacity)} left`)
          .join(', ')
  const by = names.length > 1 && !decision.allowed ? ` by ${policy}` : ''
  return `a call now would be ${outcome}${by}${retry}; ${remainingText}`
}
