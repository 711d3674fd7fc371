/** Runs the code of the pages unchanged, with the sources in place of the package. */
import { join } from 'node:path'
import { format } from 'node:util'
import ts from 'typescript'
import { type Block, placeOf, ROOT } from './pages.js'

/** The Redis URL of the pages' examples. */
const REDIS_IN_PAGES = 'redis://localhost:6379'

/** The environment of a run. */
export interface RunOptions {
  /** The URL of the server that replaces the one on the pages. */
  readonly redisUrl?: string
  /** Replacements for modules, by name. */
  readonly modules?: Readonly<Record<string, unknown>>
}

/** The result of a block. */
export interface Result<E> {
  /** Its printed output, one text for each call. */
  readonly printed: readonly string[]
  readonly exports: E
}

type Program = (...given: readonly unknown[]) => Promise<void>

const AsyncFunction = (async () => {}).constructor as new (...parameters: readonly string[]) => Program

const OPTIONS: ts.CompilerOptions = {
  module: ts.ModuleKind.CommonJS,
  target: ts.ScriptTarget.ES2022,
  esModuleInterop: true,
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
}

/** The package's public modules by the names in package.json. */
const SOURCES = new Map(Object.entries(manifest().exports).flatMap(([name, target]) => sourceOf(name, target)))

/** Runs a block to its end, and returns its output and exports. */
export async function run<E = unknown>(block: Block, options: RunOptions = {}): Promise<Result<E>> {
  const { redisUrl = REDIS_IN_PAGES, modules = {} } = options
  const code = block.code.replaceAll(REDIS_IN_PAGES, redisUrl)
  const { outputText } = ts.transpileModule(code, { compilerOptions: OPTIONS, fileName: `${placeOf(block)}.ts` })
  const printed: string[] = []
  const log = (...values: readonly unknown[]) => printed.push(format(...values))
  const load = (name: string) => modules[name] ?? require(SOURCES.get(name) ?? name)
  const exported = {} as E
  await new AsyncFunction('require', 'exports', 'console', outputText)(load, exported, { ...console, log })
  return { printed, exports: exported }
}

/** The output that a block documents: the comments after its `console.log` calls. */
export function documentedOutput({ code }: Block): string[] {
  return [...code.matchAll(/^\s*console\.log\(.*\/\/ (.*)$/gm)].map(([, text = '']) => text)
}

function manifest(): { exports: Record<string, string | { require: { default: string } }> } {
  return require(join(ROOT, 'package.json'))
}

function sourceOf(name: string, target: string | { require: { default: string } }): [string, string][] {
  if (typeof target === 'string') {
    return []
  }
  const source = target.require.default.replace(/^\.\/dist\/(.*)\.js$/, 'ts/$1.ts')
  return [[name.replace('.', 'tollgate'), join(ROOT, source)]]
}
