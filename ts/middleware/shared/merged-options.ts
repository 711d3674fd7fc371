interface LimiterDependentOptions {
  readonly limiter?: unknown
  readonly tier?: unknown
  readonly delay?: unknown
}

/**
 * The options of a route: its own ones, and the common ones for all others. The common `tier` does not apply to a route
 * whose own limiter has no tiers, and the common `delay` not to a route with its own limiter, which may be unable to
 * wait.
 */
export function mergedOptions<T extends object>(common: T, own: Partial<T> = {}): T {
  const options: T & LimiterDependentOptions = { ...common, ...own }
  const { limiter } = own as LimiterDependentOptions
  if (limiter === undefined) {
    return options
  }
  const { tier, delay, ...others } = options
  const { tiers = {} } = limiter as { readonly tiers?: object }
  const keepsTier = tier !== undefined && ('tier' in own || Object.keys(tiers).length > 0)
  const keepsDelay = delay !== undefined && 'delay' in own
  return { ...others, ...(keepsTier && { tier }), ...(keepsDelay && { delay }) } as unknown as T
}
