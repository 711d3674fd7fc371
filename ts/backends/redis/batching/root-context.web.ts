/**
 * Runs a function. Not all web platforms have AsyncLocalStorage, and there no work serves several
 * requests: see `scheduler.web.ts`.
 */
export const inRootContext = <R>(run: () => R): R => run()
