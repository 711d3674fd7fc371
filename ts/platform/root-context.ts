import type { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'

/** The part of Node's `process` that is used. Deno and Bun have it; browsers and some Workers do not. */
interface BuiltinModules {
  getBuiltinModule?(
    name: 'node:async_hooks',
  ): { readonly AsyncLocalStorage: typeof AsyncLocalStorage; readonly AsyncResource?: typeof AsyncResource } | undefined
}

const { process } = globalThis as { readonly process?: BuiltinModules }
const hooks = process?.getBuiltinModule?.('node:async_hooks')

/**
 * Runs a function in the AsyncLocalStorage context in which the package was loaded: a timer keeps its context alive,
 * and work for many callers must not belong to one of them.
 */
export const inRootContext: <R>(run: () => R) => R = hooks?.AsyncLocalStorage.snapshot?.() ?? ((run) => run())

/** Makes a function always run in the present context, wherever it is called. */
export function inThisContext<F extends (...args: never[]) => unknown>(run: F): F {
  if (hooks?.AsyncResource === undefined) {
    return run
  }
  // `AsyncLocalStorage.bind` of Node.js 20 takes 3 kB more: it gives each function a deprecated property.
  const resource = new hooks.AsyncResource('tollgate')
  const bound = (...args: Parameters<F>) => resource.runInAsyncScope(run as never, undefined, ...args)
  return bound as unknown as F
}
