/** There is no AsyncLocalStorage on all platforms of the web, and no call serves many callers there: see `pace.web.ts`. */
export const inRootContext = <R>(run: () => R): R => run()
