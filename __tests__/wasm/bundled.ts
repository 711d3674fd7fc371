/** Bundled programs of users, run in environments without Node. */
import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { type Context, createContext, runInContext } from 'node:vm'
import { build } from 'esbuild'

const ROOT = join(__dirname, '..', '..')

/** The globals that all of these platforms have, as far as the programs need them. */
const PLATFORM = {
  atob,
  performance,
  queueMicrotask,
  setTimeout,
  clearTimeout,
  setInterval,
  clearInterval,
  AbortController,
  TextDecoder,
  TextEncoder,
}

/** The exports for users of the embedded store alone. */
const EMBEDDED = ['calendarWindow', 'gcra', 'MemoryStore', 'RateLimiter', 'TollgateError']

/** A user's bundled program as one script; `imported` has the parts of the engine. */
async function bundled(
  conditions: readonly string[],
  names: readonly string[],
): Promise<{ text: string; imported: readonly string[] }> {
  const { outputFiles, metafile } = await build({
    stdin: { contents: `export { ${names} } from 'tollgate/wasm'`, resolveDir: ROOT },
    bundle: true,
    write: false,
    metafile: true,
    format: 'iife',
    globalName: 'tollgate',
    // Modules of Node cannot be resolved for a browser: loading one would fail here.
    platform: 'browser',
    conditions: [...conditions, 'browser'],
    plugins: [
      {
        name: 'compiled',
        setup(build) {
          build.onResolve({ filter: /\.wasm$/ }, ({ path }) => ({
            path: basename(path),
            namespace: 'compiled',
            sideEffects: false,
          }))
          build.onLoad({ filter: /.*/, namespace: 'compiled' }, ({ path }) => {
            return { contents: `export default compiled['${path}']` }
          })
        },
      },
    ],
  })
  const made = Object.values(metafile.outputs).flatMap(({ inputs }) => Object.entries(inputs))
  const text = outputFiles.map((file) => file.text).join('')
  const used = made.filter(([, { bytesInOutput }]) => bytesInOutput > 0).map(([input]) => input)
  return { text, imported: used.filter((input) => /^compiled:|^generated\/wasm\/[\w-]+\.js$/.test(input)).sort() }
}

/** A browser, or Deno, that has loaded a program. */
export async function browser(
  names: readonly string[] = EMBEDDED,
): Promise<{ context: Context; imported: readonly string[] }> {
  const { text, imported } = await bundled([], names)
  const context = createContext({ ...PLATFORM, crypto })
  runInContext(text, context)
  return { context, imported }
}

/**
 * A Worker that has loaded a program: modules are compiled before, and random numbers are available
 * only during requests.
 */
export async function worker(names: readonly string[] = EMBEDDED) {
  const handling = { isRequest: false }
  const getRandomValues = (array: Uint8Array<ArrayBuffer>) => {
    if (!handling.isRequest) {
      throw new Error('Disallowed operation called within global scope')
    }
    return crypto.getRandomValues(array)
  }
  const Module = () => {
    throw new Error('Wasm code generation disallowed by embedder')
  }
  Object.defineProperty(Module, Symbol.hasInstance, {
    value: (value: unknown) => value instanceof WebAssembly.Module,
  })
  const { Instance } = WebAssembly
  const modules = ['tollgate.wasm', 'redis.wasm'].map(async (file) => {
    return [file, await WebAssembly.compile(readFileSync(join(ROOT, 'generated', 'wasm', file)))] as const
  })
  const compiled = Object.fromEntries(await Promise.all(modules))
  const { text, imported } = await bundled(['workerd'], names)
  const globals = { ...PLATFORM, crypto: { getRandomValues }, WebAssembly: { Instance, Module }, compiled }
  const context = createContext(globals, { codeGeneration: { strings: false, wasm: false } })
  runInContext(text, context)
  return { context, handling, imported }
}
