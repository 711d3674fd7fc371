/** Runs the pages' code as it stands there, with the sources in place of the package. */
import { join } from 'node:path'
import { format } from 'node:util'
import ts from 'typescript'
import { type Block, placeOf, ROOT } from './pages.js'

/** The Redis of the pages' examples. */
const REDIS_IN_PAGES = 'redis://localhost:6379'

/** Where code is run. */
export interface Surroundings {
  /** The URL of the server that stands in for that of the pages. */
  readonly redisUrl?: string
  /** Modules in place of those of the same name. */
  readonly modules?: Readonly<Record<string, unknown>>
}

/** What came of a block. */
export interface Result<E> {
  /** What it printed, a text for each call. */
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

/** The package's public modules by their names, as package.json has them. */
const SOURCES = new Map(Object.entries(manifest().exports).flatMap(([name, target]) => sourceOf(name, target)))

/** Runs a block to its end, and tells what it printed and exports. */
export async function run<E = unknown>(block: Block, surroundings: Surroundings = {}): Promise<Result<E>> {
  const { redisUrl = REDIS_IN_PAGES, modules = {} } = surroundings
  const code = block.code.replaceAll(REDIS_IN_PAGES, redisUrl)
  const { outputText } = ts.transpileModule(code, { compilerOptions: OPTIONS, fileName: `${placeOf(block)}.ts` })
  const printed: string[] = []
  const log = (...values: readonly unknown[]) => printed.push(format(...values))
  const load = (name: string) => modules[name] ?? require(SOURCES.get(name) ?? name)
  const exported = {} as E
  await new AsyncFunction('require', 'exports', 'console', outputText)(load, exported, { ...console, log })
  return { printed, exports: exported }
}

/** What a block says that it prints: the comments behind its `console.log` calls. */
export function saidBy({ code }: Block): string[] {
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
