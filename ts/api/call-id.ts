import type { CallId } from '../backends/operation.js'
import { microsOf, millisOfOption } from '../input/duration.js'
import { invalid, optionsOf } from '../input/options.js'
import { isWellFormed, utf8Length } from '../input/utf8.js'
import { TollgateError } from './error.js'

/** The most bytes of an id. */
const MAX_ID_BYTES = 128

const DEFAULT_LIFE_US = 600_000_000

const MAX_LIFE_US = 86_400_000_000

/** The advice on the options of an id, for a method that has none. */
export function adviceOnId(name: string): string | undefined {
  const isOfId = ['id', 'idTtl', 'idempotencyKey', 'requestId', 'jobId'].includes(name)
  return isOfId ? 'only take, tryTake, takeSync, reserve and acquire take an id' : undefined
}

/**
 * Checks the id of a call and how long it is remembered; `undefined` without an id.
 *
 * @param leastUs - The least life of the id: that of a reservation.
 */
export function callIdOf(method: string, id: unknown, idTtl: unknown, leastUs = 0): CallId | undefined {
  if (id === undefined) {
    if (idTtl !== undefined) {
      throw new TollgateError('INVALID_OPTION', `${method}: idTtl is the life of an id: give an id, or leave it out`)
    }
    return undefined
  }
  const isId = typeof id === 'string' && isWellFormed(id) && id !== '' && utf8Length(id) <= MAX_ID_BYTES
  if (!isId) {
    const rule = `must be a well-formed string of 1 to ${MAX_ID_BYTES} bytes of UTF-8`
    const length = typeof id === 'string' && utf8Length(id) > MAX_ID_BYTES ? 'use a hash of it' : undefined
    throw invalid('INVALID_OPTION', 'id', rule, id, length)
  }
  const bytes = new TextEncoder().encode(id)
  if (idTtl === undefined) {
    return { bytes, lifeUs: Math.max(DEFAULT_LIFE_US, leastUs) }
  }
  const lifeUs = microsOf(millisOfOption('INVALID_OPTION', 'idTtl', idTtl))
  if (lifeUs > MAX_LIFE_US) {
    throw invalid('INVALID_OPTION', 'idTtl', "must be at most '1d'", idTtl)
  }
  if (lifeUs < leastUs) {
    throw invalid(
      'INVALID_OPTION',
      'idTtl',
      `must be at least the ttl of the reservation, ${leastUs / 1_000} ms`,
      idTtl,
    )
  }
  return { bytes, lifeUs }
}

/** The options of a call that takes or previews units, not checked. */
export interface UncheckedTakeOptions {
  readonly cost?: unknown
  readonly tag?: unknown
  readonly tier?: unknown
  readonly id?: unknown
  readonly idTtl?: unknown
}

/** Checks the names of the options of a call that takes or previews units. Only a single take has an id. */
export function takeOptionNamesOf(method: string, options: object): UncheckedTakeOptions {
  return method === 'take'
    ? optionsOf('INVALID_OPTION', method, options, ['cost', 'tag', 'tier', 'id', 'idTtl'])
    : optionsOf('INVALID_OPTION', method, options, ['cost', 'tag', 'tier'], adviceOnId)
}
