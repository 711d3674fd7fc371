import { AsyncLocalStorage } from 'node:async_hooks'

/**
 * Runs a function outside of any caller's AsyncLocalStorage context. Work for many callers must not
 * belong to one of them.
 */
export const inRootContext: <R>(run: () => R) => R = AsyncLocalStorage.snapshot()
