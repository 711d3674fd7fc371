import { createRequire } from 'node:module'
import type * as native from '../../native.js'
import type { Engine } from './engine.js'

/**
 * The platforms with a package of their own, by the end of its name; `npm/` has their manifests.
 *
 * The loader knows more names, for those who build the addon themselves.
 */
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

/** Variables that name another addon than the platform's: what fails then is for the loader to say. */
const CHOSEN_BY = ['NAPI_RS_NATIVE_LIBRARY_PATH', 'NAPI_RS_FORCE_WASI', 'NAPI_RS_WASI_FLAVOR']

const ADVICE_ON_DENO = [
  'Deno loads addons only with --allow-ffi --allow-read --allow-env, which lets them do anything;',
  "'tollgate/wasm' needs no permission, and has the embedded store.",
].join(' ')

const addon = load()

/** What embedded stores know of it. */
export const engine: Engine = addon

export const RedisReader = addon.RedisReader
export const RedisStore = addon.RedisStore

export type RedisLedger = native.RedisLedger
export type RedisReader = native.RedisReader
export type RedisStore = native.RedisStore

/**
 * The addon, by the generated loader.
 *
 * @throws {Error} Saying what to do if there is none that this process can load; its `cause` is what the loader tried.
 */
function load(): typeof native {
  try {
    // Not an import: what an import fails with cannot be caught.
    return require('../../native.js') as typeof native
  } catch (error) {
    if (lacksPermission(error)) {
      throw new Error(`tollgate: ${ADVICE_ON_DENO}`, { cause: error })
    }
    if (CHOSEN_BY.some((name) => process.env[name])) {
      throw error
    }
    // The loader's own sentence gives other advice; its causes are what it tried, the last first.
    const cause = error instanceof Error ? (error.cause ?? error) : error
    throw new Error(`tollgate: ${advice(platform(), messagesOf(cause))}`, { cause })
  }
}

/** Whether Deno was not given a permission that the addon needs. To look further would need some, too. */
function lacksPermission(error: unknown): boolean {
  return messagesOf(error).some((message) => /^Requires \w+ access\b/.test(message))
}

/** Why there is no addon, and how to get one. */
function advice(name: string, messages: readonly string[]): string {
  if (!PLATFORMS.includes(name)) {
    return [
      `there is no addon for this platform, ${name}, only for ${PLATFORMS.join(', ')}.`,
      "Elsewhere use 'tollgate/wasm', which needs none and has the embedded store; or build the addon from the sources",
      '(`npm ci`, with Rust installed), and set NAPI_RS_NATIVE_LIBRARY_PATH to the path of the tollgate.*.node file that',
      'this makes.',
    ].join(' ')
  }
  if (!isThere(name)) {
    return adviceIfMissing(name)
  }
  // Of all the places that the loader looked at, those with nothing in them are not the reason.
  const broken = messages.filter((message) => !/^Cannot find module\b/.test(message))
  return adviceIfBroken(name, broken[0] ?? messages.join('; '))
}

function adviceIfMissing(name: string): string {
  return [
    `the package of this platform, tollgate-${name}, is not installed.`,
    'It is an optional dependency, so npm says nothing when it leaves it out. Usual reasons: `--omit=optional`,',
    '`--no-optional` or `omit=optional` in .npmrc; a package-lock.json written, or a node_modules copied, on another',
    'platform. Remove both and run `npm install` here without these options, or add the package by itself:',
    `\`npm install tollgate-${name}@${version()}\`.`,
  ].join(' ')
}

function adviceIfBroken(name: string, broken: string): string {
  const isOlder = /\bGLIBC_|\bGLIBCXX_/.test(broken)
  return [
    `the addon of this platform, tollgate-${name}, is there but cannot be loaded: ${broken.replace(/\.$/, '')}.`,
    isOlder
      ? "The system's C library is older than the addon needs: use a newer system or base image, or build from the sources there."
      : `The file may be damaged, or of another platform: install it anew, \`npm install tollgate-${name}@${version()}\`.`,
  ].join(' ')
}

/** Whether there is an addon at one of the two places where the loader looks for it. */
function isThere(name: string): boolean {
  // Not this module's own `require`: bundlers complain of names that they cannot know.
  const { resolve } = createRequire(__filename)
  return [`../tollgate.${name}.node`, `tollgate-${name}`].some((place) => {
    try {
      return resolve(place) !== ''
    } catch {
      return false
    }
  })
}

/** What Node's report tells of the C library. */
interface Report {
  readonly header: { readonly glibcVersionRuntime?: string }
}

/** This platform, as packages are named after it. */
function platform(): string {
  const abi = { linux: isGlibc() ? '-gnu' : '-musl', win32: '-msvc' }[process.platform as string] ?? ''
  return `${process.platform}-${process.arch}${abi}`
}

function isGlibc(): boolean {
  const report = process.report.getReport() as unknown as Report
  return report.header.glibcVersionRuntime !== undefined
}

/** The messages of a chain of causes. */
function messagesOf(error: unknown): string[] {
  return error instanceof Error ? [error.message, ...messagesOf(error.cause)] : []
}

function version(): string {
  return (require('../../package.json') as { readonly version: string }).version
}
