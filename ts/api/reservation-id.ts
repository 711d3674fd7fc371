import type { Charge, KnownHold } from '../backends/operation.js'
import type { Units } from '../backends/units.js'
import { Keys, tagOf } from '../input/keys.js'
import type { PolicySet } from '../policies/policy-set.js'
import type { Decision } from './decision.js'
import { TollgateError } from './error.js'

/** The number of random bytes that identify a hold. */
export const HOLD_BYTES = 16

/** The most charges of a reservation whose units can be refunded. */
export const MAX_CHARGES = 16

/** A reservation: all that a settlement needs. */
export interface KnownReservation extends KnownHold {
  readonly keys: Keys
  readonly tier: string | undefined
  readonly charges: readonly Charge[]
}

const VERSION = 2

/** The text of a reservation, as letters, digits, `-` and `_`. */
export function encodeReservation(reservation: KnownReservation): string {
  const { keys, tier, hold, source, heldUnits, expiresAtUs, charges } = reservation
  const numbers = charges.map(({ units, atUs, resetAtUs, marks, used }) => [
    ...(typeof units === 'number' ? [units] : units),
    atUs,
    ...resetAtUs,
    ...marks,
    ...used,
  ])
  const parts = [VERSION, [...hold], keys.keys, keys.tag, tier, source, heldUnits, expiresAtUs, numbers]
  const bytes = new TextEncoder().encode(JSON.stringify(parts))
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join('')
  return btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

/** Reads a text from outside. @throws {TollgateError} `INVALID_OPTION`, without the text, which has a key. */
export function decodeReservation(id: unknown, policySet: PolicySet): KnownReservation {
  const reservation = typeof id === 'string' ? read(id, policySet) : undefined
  if (reservation === undefined) {
    throw new TollgateError('INVALID_OPTION', 'id must be the id of a reservation of a limiter with the same policies')
  }
  return reservation
}

function read(id: string, { policies, dimensions, meters }: PolicySet): KnownReservation | undefined {
  const parts = jsonOf(id)
  if (!Array.isArray(parts) || parts.length !== 9 || parts[0] !== VERSION) {
    return undefined
  }
  const [, hold, keys, tag, tier, source, heldUnits, expiresAtUs, numbers] = parts as readonly unknown[]
  const isText = (value: unknown) => value === null || typeof value === 'string'
  // Under policies with meters units are by policy.
  const unitsLength = meters === undefined ? 1 : policies.length
  const isValid =
    isArrayOf(hold, isByte, HOLD_BYTES) &&
    isArrayOf(keys, (key) => typeof key === 'string', dimensions?.length ?? 1) &&
    isText(tag) &&
    isText(tier) &&
    (source === 'store' || source === 'fallback' || source === 'none') &&
    (meters === undefined ? isNumber(heldUnits) : isArrayOf(heldUnits, isNumber, policies.length)) &&
    isNumber(expiresAtUs) &&
    isArrayOf(numbers, (charge) => isArrayOf(charge, isNumber, unitsLength + 1 + 3 * policies.length)) &&
    numbers.length > 0 &&
    numbers.length <= MAX_CHARGES
  if (!isValid) {
    return undefined
  }
  const charges = (numbers as readonly (readonly number[])[]).map((charge) => {
    const units = charge.slice(0, unitsLength)
    const [atUs = 0, ...rest] = charge.slice(unitsLength)
    return {
      units: meters === undefined ? (units[0] as number) : units,
      atUs,
      resetAtUs: rest.slice(0, policies.length),
      marks: rest.slice(policies.length, 2 * policies.length),
      used: rest.slice(2 * policies.length),
    }
  })
  return {
    hold: Uint8Array.from(hold as readonly number[]),
    keys: new Keys(keys as readonly string[], tagOf(tag ?? undefined)),
    tier: (tier ?? undefined) as string | undefined,
    source: source as Decision['source'],
    heldUnits: heldUnits as Units,
    expiresAtUs: expiresAtUs as number,
    charges,
  }
}

function jsonOf(id: string): unknown {
  try {
    const binary = atob(id.replaceAll('-', '+').replaceAll('_', '/'))
    const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0))
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    return undefined
  }
}

function isArrayOf(value: unknown, isElement: (element: unknown) => boolean, length?: number): value is unknown[] {
  return Array.isArray(value) && (length === undefined || value.length === length) && value.every(isElement)
}

function isByte(value: unknown): boolean {
  return isNumber(value) && (value as number) < 256
}

function isNumber(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
