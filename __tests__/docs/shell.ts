/** Checks the commands of the pages: their programs, scripts and files must exist. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { FAULTS } from '../../tests/chaos/faults/all.js'
import { ROOT } from './pages.js'

const manifest: {
  readonly name: string
  readonly scripts: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
  readonly peerDependencies: Readonly<Record<string, string>>
} = require(join(ROOT, 'package.json'))

/** The tools of docs/bundlers.md. Their own tests install them. */
const bundlers: Pick<typeof manifest, 'devDependencies'> = require(join(ROOT, '__tests__', 'bundlers', 'package.json'))

/** The package of the command line. */
const commandLine: { readonly bin: Readonly<Record<string, string>> } = require(
  join(ROOT, 'npm', 'cli', 'package.json'),
)

type Words = readonly string[]

/** Files that readers make from the blocks of a page. */
const OF_READERS: Words = ['sea-config.json']

/** Programs that the pages run. Each returns the error in its arguments, if any. */
const PROGRAMS: Readonly<Record<string, (words: Words) => string | undefined>> = {
  npm: ([command = '', ...rest]) => {
    switch (command) {
      case 'ci':
        return undefined
      case 'install':
        return missing('package', namesOf(rest), (name) => isInstalled(name))
      case 'test':
        return missing('script', ['test'], (name) => name in manifest.scripts)
      case 'run':
        return wrongScript(rest)
      default:
        return `npm ${command}`
    }
  },
  // __tests__/cli/pages.test.ts tests the package's own command.
  npx: ([name = '']) =>
    missing(
      'binary',
      [name],
      (binary) =>
        binary in commandLine.bin ||
        binary in bundlers.devDependencies ||
        isThere(join('node_modules', '.bin', binary)),
    ),
  node: (words) => missing('file', namesOf(words), (name) => OF_READERS.includes(name) || isThere(name)),
  cargo: (words) => missing('target', valuesOf(words, '--bench', '--test'), isTarget),
  // These programs are not part of the repository and may be missing: only their arguments are
  // checked.
  curl: (words) => missing('URL', namesOf(words), (url) => /^'?https?:\/\/(localhost|127\.0\.0\.1)(:\d+)?\b/.test(url)),
  zcat: () => undefined,
  // The programs of docs/bundlers.md, which `npm run test:full -- package runtimes` runs.
  bun: () => undefined,
  cp: () => undefined,
  prometheus: (words) => missing('file', valuesOf(words, '--config.file'), isThere),
}

/** Scripts with names as arguments. */
const ARGUMENTS: Readonly<Record<string, (words: Words) => string | undefined>> = {
  bench: wrongParts,
  'bench:report': wrongParts,
  chaos: (words) => missing('fault', valuesOf(words, '--only'), (name) => FAULTS.some((fault) => fault.name === name)),
  'report:faults': (words) =>
    missing('contender', valuesOf(words, '--only'), (name) => isThere(`tests/faults/contenders/${name}.mjs`)),
}

/** The errors in the commands of a block: each command with its reason. */
export function wrongCommands(code: string): string[] {
  return code.split('\n').flatMap((line) => {
    // A text in quotes may contain the signs that end a command.
    const commands = line
      .replace(/(^|\s)#.*$/, '')
      .replace(/"[^"]*"/g, '""')
      .split(/&&|\|\||[;|]/)
    return commands.flatMap((command) => {
      const words = command.trim().split(/\s+/)
      const start = words.findIndex((word) => !/^[A-Z_]+=/.test(word))
      const [program = '', ...rest] = words.slice(start)
      const check = PROGRAMS[program]
      const reason = program === '' ? undefined : check === undefined ? `no such program: ${program}` : check(rest)
      return reason === undefined ? [] : [`${command.trim()}: ${reason}`]
    })
  })
}

function wrongScript([name = '', ...rest]: Words): string | undefined {
  const check = ARGUMENTS[name]
  return (
    missing('script', [name], (script) => script in manifest.scripts) ?? check?.(rest.slice(rest.indexOf('--') + 1))
  )
}

function wrongParts(words: Words): string | undefined {
  return missing('part', namesOf(words), (part) => isThere(`tests/benches/node/${part}.mjs`))
}

function missing(what: string, names: Words, isThere: (name: string) => boolean): string | undefined {
  const absent = names.filter((name) => !isThere(name))
  return absent.length === 0 ? undefined : `no such ${what}: ${absent.join(', ')}`
}

/** The arguments without options and without the separate values of options. */
function namesOf(words: Words): Words {
  const takesValue = (word: string | undefined) =>
    word !== undefined && ['--rounds', '--json', '--from', '--out', '--cycles'].includes(word)
  return words.filter((word, index) => !word.startsWith('-') && !takesValue(words[index - 1]))
}

/** The values of options, written `--name value` or `--name=value`. */
function valuesOf(words: Words, ...options: Words): Words {
  return words.flatMap((word, index) => {
    const [name = '', value] = word.split('=')
    return options.includes(name) ? [value ?? words[index + 1] ?? ''] : []
  })
}

function isThere(path: string): boolean {
  return existsSync(join(ROOT, path))
}

function isTarget(name: string): boolean {
  const manifests = ['Cargo.toml', 'tests/benches/Cargo.toml'].map((file) => readFileSync(join(ROOT, file), 'utf8'))
  return manifests.some((manifest) => manifest.includes(`name = "${name}"`))
}

function isInstalled(name: string): boolean {
  return name === manifest.name || name in manifest.devDependencies || name in manifest.peerDependencies
}
