import { createRequire } from 'node:module'
import type * as native from '../../native.js'
import type { Engine } from './engine.js'

/** The platforms with a prebuilt package, by the suffix of its name. `npm/` has their manifests. */
export const PLATFORMS: readonly string[] = [
  'darwin-arm64',
  'darwin-x64',
  'linux-arm64-gnu',
  'linux-arm64-musl',
  'linux-x64-gnu',
  'linux-x64-musl',
  'win32-arm64-msvc',
  'win32-x64-msvc',
]

/** Variables that select another addon. The loader itself then reports failures. */
const ADDON_PATH_VARIABLES = ['NAPI_RS_NATIVE_LIBRARY_PATH', 'NAPI_RS_FORCE_WASI', 'NAPI_RS_WASI_FLAVOR']

const ADVICE_ON_DENO = [
  'Deno loads addons only with --allow-ffi --allow-read --allow-env, which lets them do anything;',
  "'tollgate/wasm' needs no permission, and has the embedded store.",
].join(' ')

/** The variable that chooses the engine: `native`, the default, or `wasm`. */
const ENGINE_VARIABLE = 'TOLLGATE_ENGINE'

/** The classes of the addon that have no counterpart in WebAssembly. */
type RedisClasses = Pick<typeof native, 'NativeInspector' | 'NativeRedisStore'>

/** Stands for the classes of the addon where WebAssembly was chosen. */
class NeedsAddon {
  constructor() {
    const rule = `needs the addon: ${ENGINE_VARIABLE}=wasm has the embedded store alone`
    throw new Error(`${rule}; use RedisStore.from(client) of 'tollgate/wasm'`)
  }
}

const loaded = load()

export const engine: Engine = loaded.engine

export const { NativeInspector, NativeRedisStore }: RedisClasses = loaded

/** Loads the addon, or WebAssembly if the environment chooses it: it is slower, and has no Redis. */
function load(): RedisClasses & { readonly engine: Engine } {
  const addon = loadAddon()
  if (addon === undefined) {
    const engine = loadWasm()
    return { engine, ...({ NativeInspector: NeedsAddon, NativeRedisStore: NeedsAddon } as unknown as RedisClasses) }
  }
  const { NativeMemoryStore: MemoryStore, NativePolicySet: PolicySet, NativePolicy: Policy } = addon
  const { elapsedMs, LimiterRegistry, NativeInspector, NativeRedisStore } = addon
  return { engine: { MemoryStore, PolicySet, Policy, elapsedMs, LimiterRegistry }, NativeInspector, NativeRedisStore }
}

/** @throws {Error} With advice, if a bundler has taken this module out of the package. */
function loadWasm(): Engine {
  try {
    // Not this module's own `require`: bundlers would add the engine to every program. The path is that of
    // the bundle, dist/core.js, whose exports are modules.
    const modules = createRequire(__filename)('./wasm/engine.js') as Record<string, { readonly engine: Engine }>
    return (modules['wasm/engine/engine'] as { readonly engine: Engine }).engine
  } catch (cause) {
    if (!isInOtherBundle()) {
      throw cause
    }
    const rule = `${ENGINE_VARIABLE}=wasm needs a file that this bundle of a program does not have, dist/wasm/engine.js`
    throw new Error(`tollgate: ${rule}. Keep \`tollgate\` external, or import 'tollgate/wasm'.`, { cause })
  }
}

/** Loads the addon. @throws {Error} With advice; its `cause` is the error of the generated loader. */
function loadAddon(): typeof native | undefined {
  try {
    if (isWasmChosen()) {
      return undefined
    }
    // Not an import: the failure of an import cannot be caught.
    return require('../../native.js') as typeof native
  } catch (error) {
    if (error instanceof RangeError) {
      throw error
    }
    if (lacksPermission(error)) {
      throw new Error(`tollgate: ${ADVICE_ON_DENO}`, { cause: error })
    }
    if (ADDON_PATH_VARIABLES.some((name) => process.env[name])) {
      throw error
    }
    // The loader's own message gives other advice. Its causes are the attempts, the last one first.
    const cause = error instanceof Error ? (error.cause ?? error) : error
    throw new Error(`tollgate: ${advice(platform(), messagesOf(cause))}`, { cause })
  }
}

/** @throws {RangeError} for an unknown engine. */
function isWasmChosen(): boolean {
  const chosen = process.env[ENGINE_VARIABLE] ?? 'native'
  if (chosen !== 'native' && chosen !== 'wasm') {
    throw new RangeError(`tollgate: ${ENGINE_VARIABLE} must be native or wasm, got ${JSON.stringify(chosen)}`)
  }
  return chosen === 'wasm'
}

/** Whether Deno lacks a permission that the addon needs. */
function lacksPermission(error: unknown): boolean {
  return messagesOf(error).some((message) => /^Requires \w+ access\b/.test(message))
}

/** The reason why no addon can be loaded, and how to get one. */
function advice(name: string, messages: readonly string[]): string {
  if (!PLATFORMS.includes(name)) {
    return [
      `there is no addon for this platform, ${name}, only for ${PLATFORMS.join(', ')}.`,
      `Elsewhere use 'tollgate/wasm', or set ${ENGINE_VARIABLE}=wasm: this engine needs none and has the embedded store; or build the addon from the sources`,
      '(`npm ci`, with Rust installed), and set NAPI_RS_NATIVE_LIBRARY_PATH to the path of the tollgate.*.node file that',
      'this makes.',
    ].join(' ')
  }
  if (!isInstalled(name)) {
    return isInOtherBundle() ? adviceIfBundled(name) : adviceIfMissing(name)
  }
  if (messages.some((message) => message.includes('loading addons is disabled'))) {
    return adviceIfForbidden()
  }
  // Places without a file are not the reason.
  const broken = messages.filter((message) => !/^Cannot find module\b/.test(message))
  return adviceIfBroken(name, broken[0] ?? messages.join('; '))
}

function adviceIfForbidden(): string {
  const [reason, start] =
    (process as { readonly permission?: unknown }).permission === undefined
      ? ['--no-addons', 'without --no-addons']
      : ['--permission without --allow-addons', 'with --allow-addons']
  return [
    `Node.js loads no addons in this process, because of ${reason}. Start it ${start}, or set ${ENGINE_VARIABLE}=wasm,`,
    "for a slower engine without Redis, or import 'tollgate/wasm'.",
  ].join(' ')
}

function adviceIfMissing(name: string): string {
  return [
    `the package of this platform, tollgate-${name}, is not installed.`,
    'It is an optional dependency, so npm says nothing when it leaves it out. Usual reasons: `--omit=optional`,',
    '`--no-optional` or `omit=optional` in .npmrc; a package-lock.json written, or a node_modules copied, on another',
    'platform. Remove both and run `npm install` here without these options, or add the package by itself:',
    `\`npm install tollgate-${name}@${version()}\`. Or set ${ENGINE_VARIABLE}=wasm, for a slower engine without Redis.`,
  ].join(' ')
}

function adviceIfBundled(name: string): string {
  return [
    'this program is a bundle, and the addon is a file of its own, which is neither beside the bundle nor installed.',
    `Keep \`tollgate\` external, and deploy node_modules/tollgate and node_modules/tollgate-${name} with the program;`,
    "or let the bundler copy the .node file (esbuild: --loader:.node=copy), and deploy it beside the bundle. 'tollgate/wasm'",
    'needs no file.',
  ].join(' ')
}

function adviceIfBroken(name: string, broken: string): string {
  const isOlder = /\bGLIBC_|\bGLIBCXX_/.test(broken)
  return [
    `the addon of this platform, tollgate-${name}, is installed but cannot be loaded: ${broken.replace(/\.$/, '')}.`,
    isOlder
      ? "The system's C library is older than the addon needs: use a newer system or base image, or build from the sources there."
      : `The file may be damaged, or of another platform: reinstall it, \`npm install tollgate-${name}@${version()}\`.`,
  ].join(' ')
}

/** Whether a bundler has put this module into a file of the program. */
function isInOtherBundle(): boolean {
  // The bundle of the package; or a module of its sources, in tests. ECMAScript modules have no `__filename`.
  return typeof __filename === 'undefined' || !/[\\/](dist[\\/]core\.js|backends[\\/]addon\.ts)$/.test(__filename)
}

/** Whether one of the loader's two places has an addon. */
function isInstalled(name: string): boolean {
  return [`../tollgate.${name}.node`, `tollgate-${name}`].some((place) => {
    try {
      // Not this module's own `require`: bundlers warn about names that they cannot resolve.
      return createRequire(__filename).resolve(place) !== ''
    } catch {
      return false
    }
  })
}

/** The part of Node's report about the C library. */
interface ProcessReport {
  readonly header: { readonly glibcVersionRuntime?: string }
}

/** This platform, as in package names. */
function platform(): string {
  const abi = { linux: isGlibc() ? '-gnu' : '-musl', win32: '-msvc' }[process.platform as string] ?? ''
  return `${process.platform}-${process.arch}${abi}`
}

function isGlibc(): boolean {
  const report = process.report.getReport() as unknown as ProcessReport
  return report.header.glibcVersionRuntime !== undefined
}

function messagesOf(error: unknown): string[] {
  return error instanceof Error ? [error.message, ...messagesOf(error.cause)] : []
}

function version(): string {
  return (require('../../package.json') as { readonly version: string }).version
}
