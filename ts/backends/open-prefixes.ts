import { TollgateError } from '../api/error.js'
import { shown } from '../input/options.js'
import type { PolicySet } from '../policies/policy-set.js'
import { differenceBetween } from '../policies/variants.js'

/** Counts one more user of a prefix, until the returned function is called. */
export type UsePrefix = () => () => void

/** The open prefixes of a store, with the policies of the limiter that opened each of them first. */
export class OpenPrefixes {
  readonly #open = new Map<string, { readonly policySet: PolicySet; users: number }>()

  /** @throws {TollgateError} `INVALID_OPTION` while the prefix is open with policies that differ in more than numbers. */
  check(prefix: string, policySet: PolicySet): UsePrefix {
    checkSharedPrefix(prefix, this.#open.get(prefix)?.policySet, policySet)
    return () => {
      const open = this.#open.get(prefix) ?? { policySet, users: 0 }
      this.#open.set(prefix, open)
      open.users++
      let isUsed = true
      return () => {
        open.users -= isUsed ? 1 : 0
        isUsed = false
        if (open.users === 0) {
          this.#open.delete(prefix)
        }
      }
    }
  }
}

/** Throws `INVALID_OPTION` if a prefix is open with policies that differ in more than numbers. */
export function checkSharedPrefix(prefix: string, open: PolicySet | undefined, policySet: PolicySet): void {
  const difference = open && differenceBetween(allTiersOf(open), allTiersOf(policySet))
  if (difference !== undefined) {
    const rule = 'is in use on this store by a limiter whose policies differ in more than numbers'
    const message = `prefix ${shown(prefix)} ${rule}: ${difference}; close it, or use another prefix`
    throw new TollgateError('INVALID_OPTION', message)
  }
}

function allTiersOf(policySet: PolicySet): readonly PolicySet[] {
  return policySet.allTiers ?? [policySet]
}
