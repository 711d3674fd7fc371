import { AsyncLocalStorage } from 'node:async_hooks'

/**
 * Runs a function outside of any caller's AsyncLocalStorage context: what serves many callers belongs to
 * none of them.
 */
export const inRootContext: <R>(run: () => R) => R = AsyncLocalStorage.snapshot()
