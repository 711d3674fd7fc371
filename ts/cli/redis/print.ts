import type { Decision } from '../../api/decision.js'
import { printable } from '../terminal.js'
import { lengthInWords, number, rateInWords, shareInWords, timeInWords } from './format.js'
import type { Look } from './inspect.js'
import { limitOf, type OwnLimit, type OwnNumbers } from './override-numbers.js'
import type { KeyState } from './state.js'

/** What was seen of a key, in words. */
export function lookInWords(look: Look): string {
  const at = Date.parse(look.at)
  const lines = [`${keyInWords(look.key)} under ${look.prefix} at ${look.server}, ${timeInWords(at)} by its clock`, '']
  for (const state of look.states) {
    const { policy, algorithm, layout, tag } = state
    const how = layout === undefined || layout === 'list' ? algorithm : `${algorithm} (${layout})`
    lines.push(`${policy}: ${how}${tag === undefined ? '' : `, tag ${printable(tag)}`}`)
    lines.push(...stateInWords(state, at).map((line) => `  ${line}`))
  }
  if (look.states.length === 0) {
    lines.push('Nothing is kept of it that counts: it is as if never used.')
  }
  const { reservations, decision, scan } = look
  if (reservations !== undefined) {
    const { open, endInMs } = reservations
    lines.push(
      `${open === 1 ? '1 reservation is' : `${number(open)} reservations are`} open, for ${lengthInWords(endInMs)} at most`,
    )
  }
  if (decision !== undefined) {
    lines.push(`By the ${look.states.length > 1 ? 'policies' : 'policy'} given: ${decisionInWords(decision)}`)
  }
  if (scan !== undefined) {
    lines.push(scanInWords(scan))
  }
  return `${lines.join('\n')}\n`
}

/** A key as calls name it. */
export function keyInWords(key: Look['key']): string {
  if (typeof key === 'string') {
    return printable(key)
  }
  const parts = Object.entries(key).map(([kind, part]) =>
    part === true ? `${kind} (all calls)` : `${kind} ${printable(part)}`,
  )
  return parts.join(', ')
}

function scanInWords({ isComplete }: NonNullable<Look['scan']>): string {
  return isComplete
    ? '(All keys of the prefix were gone through; --name, --policy or --policies spares that.)'
    : '(Not all keys could be gone through in the time: --scan gives more; --name, --policy or --policies spares it.)'
}

/** What a state says, line by line. */
function stateInWords(state: KeyState, at: number): string[] {
  if (!state.isReadable) {
    return ['it holds something that no limiter writes: calls on it fail with STORE_ERROR']
  }
  const { used, isUsedExact, most, rate, windowMs, windowEndsInMs, resetInMs, bookedForMs, blockedForMs } = state
  const { entries = 0 } = state
  const lines: string[] = []
  if (blockedForMs !== undefined) {
    lines.push(`blocked for ${lengthInWords(blockedForMs)}, until ${timeInWords(at + blockedForMs)}`)
  }
  if (state.override !== undefined) {
    const { forMs } = state.override
    const numbers = numbersInWords(state.algorithm, state.override)
    lines.push(`override: ${numbers}; for ${lengthInWords(forMs)}, until ${timeInWords(at + forMs)}`)
  }
  const limit = (state.override === undefined ? undefined : limitOf(state.override)) ?? most
  const of = limit === undefined ? '' : ` of ${number(limit)} (${shareInWords(used, limit)})`
  const within = windowMs === undefined ? '' : ` within ${lengthInWords(windowMs)}`
  const upTo = isUsedExact ? '' : 'at most '
  lines.push(`used: ${upTo}${number(used)}${of}${within}`)
  if (rate !== undefined) {
    lines.push(`${state.layout === 'interval' ? 'refilled' : 'drains'}: ${rateInWords(rate.units, rate.periodMs)}`)
  }
  if (windowEndsInMs !== undefined) {
    lines.push(`the window ends in ${lengthInWords(windowEndsInMs)}, at ${timeInWords(at + windowEndsInMs)}`)
  } else if (resetInMs !== undefined) {
    lines.push(`as if never used in ${lengthInWords(resetInMs)}`)
  }
  if (state.oldestAgoMs !== undefined && state.newestAgoMs !== undefined) {
    const [oldest, newest] = [state.oldestAgoMs, state.newestAgoMs].map(lengthInWords)
    lines.push(
      `${entries === 1 ? '1 entry' : `${number(entries)} entries`}, the oldest ${oldest} old, the newest ${newest}`,
    )
  }
  if (bookedForMs !== undefined) {
    lines.push(`calls wait for their slots, the last for ${lengthInWords(bookedForMs)}`)
  }
  return lines
}

/** The numbers of an override: `gcra 5 per minute, burst 10`. */
function numbersInWords(algorithm: string, { numbers }: OwnNumbers): string {
  const { limit, limits, periodMs, burst, capacity, initial, debt, tokens, units, everyMs, windowMs } =
    numbers as Partial<Record<string, number>> & { limits?: readonly OwnLimit[] }
  if (limits !== undefined) {
    const all = limits.map((one) => `${number(one.limit)} within ${lengthInWords(one.windowMs)}`)
    return `${algorithm} ${all.join(', ')}`
  }
  if (limit !== undefined && periodMs !== undefined) {
    return `${algorithm} ${rateInWords(limit, periodMs)}, burst ${number(burst ?? limit)}`
  }
  if (capacity !== undefined && everyMs !== undefined) {
    const more = [
      initial === undefined ? [] : [`initial ${number(initial)}`],
      debt === undefined ? [] : [`debt ${number(debt)}`],
    ]
    const rate = rateInWords(tokens ?? units ?? 1, everyMs)
    return [`${algorithm} ${rate}, capacity ${number(capacity)}`, ...more.flat()].join(', ')
  }
  return `${algorithm} ${number(limit ?? 0)}${windowMs === undefined ? '' : ` within ${lengthInWords(windowMs)}`}`
}

/** What a call of one unit would be told. */
export function decisionInWords(decision: Decision): string {
  const { status, policy, remaining, limit, retryAfterMs, policies } = decision
  const retry = retryAfterMs === null || retryAfterMs === 0 ? '' : `, again in ${lengthInWords(retryAfterMs)}`
  const verdict = {
    allowed: 'allowed',
    'allowed-last': 'allowed, the last one',
    refused: 'refused',
    blocked: 'blocked',
    impossible: 'impossible',
  }[status]
  const names = Object.entries(policies)
  const left =
    names.length < 2
      ? `${number(remaining)} of ${number(limit)} left`
      : names.map(([name, one]) => `${name} ${number(one.remaining)} of ${number(one.limit)} left`).join(', ')
  const by = names.length > 1 && !decision.allowed ? ` by ${policy}` : ''
  return `a call now would be ${verdict}${by}${retry}; ${left}`
}
