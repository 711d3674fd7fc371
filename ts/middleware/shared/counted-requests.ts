import { ReturnOverride } from '../../platform/return-override.js'

interface Count {
  readonly limiter: object
  readonly key: unknown
  readonly cost: unknown
}

/** The counts of a request, as private fields of the request object. A `WeakMap` would take several times as long. */
class CountedRequest extends ReturnOverride {
  readonly #counts: Count[]

  constructor(request: object, count: Count) {
    super(request)
    this.#counts = [count]
  }

  static countsOf(request: object): Count[] | undefined {
    return #counts in request ? request.#counts : undefined
  }
}

/** Remembers that a limiter has counted a request. Returns whether it did so before, with the same key and cost. */
export function isCountedAgain(request: object, limiter: object, key: unknown, cost: unknown): boolean {
  const counts = CountedRequest.countsOf(request)
  if (counts === undefined) {
    new CountedRequest(request, { limiter, key, cost })
    return false
  }
  const isAgain = counts.some(
    (count) => count.limiter === limiter && areEqual(count.cost, cost) && areEqual(count.key, key),
  )
  counts.push({ limiter, key, cost })
  return isAgain
}

function areEqual(one: unknown, other: unknown): boolean {
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) {
    return one === other
  }
  const parts = Object.keys(one)
  return (
    parts.length === Object.keys(other).length &&
    parts.every((part) => (one as Record<string, unknown>)[part] === (other as Record<string, unknown>)[part])
  )
}
