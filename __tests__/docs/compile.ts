/**
 * Compiles the code of the pages with strict settings, against the built package and all its peers.
 */
import { join } from 'node:path'
import ts from 'typescript'
import type { Block } from './pages.js'

const EXTENSIONS: Readonly<Record<string, string>> = { js: 'mjs', mjs: 'mjs', ts: 'mts' }

/** The languages that are compiled. */
export const COMPILED = Object.keys(EXTENSIONS)

const OPTIONS: ts.CompilerOptions = {
  module: ts.ModuleKind.Node20,
  target: ts.ScriptTarget.ES2022,
  lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts', 'lib.dom.d.ts'],
  types: ['node'],
  strict: true,
  allowJs: true,
  checkJs: true,
  esModuleInterop: true,
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
  moduleDetection: ts.ModuleDetectionKind.Force,
  skipLibCheck: true,
  // Some packages are in the folder of the tests that use them.
  paths: Object.fromEntries(
    Object.entries({
      ai: 'dist/index.d.ts',
      '@ai-sdk/*': 'dist/index.d.ts',
      '@anthropic-ai/sdk': 'index.d.mts',
      '@elysiajs/node': 'dist/index.d.ts',
      '@langchain/openai': 'dist/index.d.ts',
      '@modelcontextprotocol/*': 'dist/index.d.mts',
      '@sveltejs/kit/hooks': '../types/index.d.ts',
      'aws-lambda': '../@types/aws-lambda/index.d.ts',
      astro: 'dist/types/public/index.d.ts',
      'astro:actions': '../astro/dist/actions/runtime/entrypoints/server.d.ts',
      bullmq: 'dist/esm/index.d.ts',
      elysia: 'dist/index.d.ts',
      openai: 'index.d.mts',
      'react-router': 'dist/development/index.d.ts',
      zod: 'index.d.ts',
    }).map(([name, types]) => [name, [join(__dirname, '../integrations/node_modules', name, types)]]),
  ),
  noEmit: true,
}

/** The error of an untyped parameter: JavaScript has no place for its type. */
const UNTYPED_IN_JAVASCRIPT: readonly number[] = [7006, 7031]

/**
 * The errors of a strict compiler in the blocks, as `page:line message`. All blocks form one
 * program, so that the packages' declarations are read once.
 */
export function complaintsAbout(blocks: readonly Block[]): string[] {
  const files = new Map(blocks.map((block) => [fileOf(block), sourceOf(block)]))
  const pages = new Map(blocks.map((block) => [fileOf(block), block.page]))
  const host = ts.createCompilerHost(OPTIONS)
  const { fileExists, readFile } = host
  host.fileExists = (name) => files.has(name) || fileExists(name)
  host.readFile = (name) => files.get(name) ?? readFile(name)
  const program = ts.createProgram([...files.keys()], OPTIONS, host)
  const diagnostics = [...program.getOptionsDiagnostics(), ...program.getGlobalDiagnostics()].map(messageOf)
  for (const source of program.getSourceFiles().filter(({ fileName }) => files.has(fileName))) {
    const isScript = source.fileName.endsWith('.mjs')
    const found = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)]
    for (const diagnostic of found.filter(({ code }) => !isScript || !UNTYPED_IN_JAVASCRIPT.includes(code))) {
      const { line } = source.getLineAndCharacterOfPosition(diagnostic.start ?? 0)
      diagnostics.push(`${pages.get(source.fileName)}:${line + 1} ${messageOf(diagnostic)}`)
    }
  }
  return diagnostics
}

/** In this folder, which has the packages that the pages compare tollgate with. */
function fileOf({ page, line, language }: Block): string {
  return join(__dirname, `${page.replaceAll('/', '-')}.${line}.${EXTENSIONS[language]}`).replaceAll('\\', '/')
}

/** The code at its lines of the page, after declarations of its given values. */
function sourceOf({ line, language, code, given }: Block): string {
  const declare = language === 'ts' ? declaredInTypeScript : declaredInJavaScript
  return given.map(declare).join(' ') + '\n'.repeat(line - 1) + code
}

const declaredInTypeScript = ([name, type]: Block['given'][number]) => `declare const ${name}: ${type};`

const declaredInJavaScript = ([name, type]: Block['given'][number]) =>
  `const ${name} = /** @type {${type}} */ (/** @type {unknown} */ (undefined));`

function messageOf({ code, messageText }: ts.Diagnostic): string {
  return `TS${code}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`
}
