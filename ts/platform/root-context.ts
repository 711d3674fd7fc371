import type { AsyncLocalStorage } from 'node:async_hooks'

/** The part of Node's `process` that is used. Deno and Bun have it; browsers and some Workers do not. */
interface BuiltinModules {
  getBuiltinModule?(name: 'node:async_hooks'): { readonly AsyncLocalStorage: typeof AsyncLocalStorage } | undefined
}

const { process } = globalThis as { readonly process?: BuiltinModules }
const contexts = process?.getBuiltinModule?.('node:async_hooks')?.AsyncLocalStorage

/**
 * Runs a function outside of any caller's AsyncLocalStorage context: in that in which the package was
 * loaded. Work for many callers must not belong to one of them, and a timer keeps its context alive.
 */
export const inRootContext: <R>(run: () => R) => R = contexts?.snapshot?.() ?? ((run) => run())

/** Makes a function always run in the present context, wherever it is called. */
export function inThisContext<F extends (...args: never[]) => unknown>(run: F): F {
  return contexts?.bind === undefined ? run : (contexts.bind(run as never) as unknown as F)
}
