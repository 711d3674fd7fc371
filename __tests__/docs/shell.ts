/** Whether the commands of the pages can be run: their programs, scripts and files are there. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { FAULTS } from '../../chaos/faults/all.js'
import { ROOT } from './pages.js'

const manifest: {
  readonly name: string
  readonly bin: Readonly<Record<string, string>>
  readonly scripts: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
  readonly peerDependencies: Readonly<Record<string, string>>
} = require(join(ROOT, 'package.json'))

type Words = readonly string[]

/** Programs that pages name. Each says what is wrong with its arguments, if anything is. */
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
  // Its own command is tried by __tests__/cli/pages.test.ts.
  npx: ([name = '']) =>
    missing('binary', [name], (binary) => binary in manifest.bin || isThere(join('node_modules', '.bin', binary))),
  node: (words) => missing('file', namesOf(words), isThere),
  cargo: (words) => missing('target', valuesOf(words, '--bench', '--test'), isTarget),
  // Not ours, and of no machine that must have them: it is enough that what they are given is there.
  curl: (words) => missing('URL', namesOf(words), (url) => /^https?:\/\/localhost(:\d+)?\b/.test(url)),
  zcat: () => undefined,
  prometheus: (words) => missing('file', valuesOf(words, '--config.file'), isThere),
}

/** Scripts whose arguments name something. */
const ARGUMENTS: Readonly<Record<string, (words: Words) => string | undefined>> = {
  bench: wrongParts,
  'bench:report': wrongParts,
  chaos: (words) => missing('fault', valuesOf(words, '--only'), (name) => FAULTS.some((fault) => fault.name === name)),
}

/** What is wrong with the commands of a block, each as the command and the reason. */
export function wrongCommands(code: string): string[] {
  return code.split('\n').flatMap((line) => {
    const commands = line.replace(/(^|\s)#.*$/, '').split(/&&|\|\||[;|]/)
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
  return missing('part', namesOf(words), (part) => isThere(`benches/node/${part}.mjs`))
}

function missing(what: string, names: Words, isThere: (name: string) => boolean): string | undefined {
  const absent = names.filter((name) => !isThere(name))
  return absent.length === 0 ? undefined : `no such ${what}: ${absent.join(', ')}`
}

/** The words that are no options, nor their values where those stand by themselves. */
function namesOf(words: Words): Words {
  const takesValue = (word: string | undefined) =>
    word !== undefined && ['--rounds', '--json', '--from', '--out', '--cycles'].includes(word)
  return words.filter((word, index) => !word.startsWith('-') && !takesValue(words[index - 1]))
}

/** The values of options, be they written `--name value` or `--name=value`. */
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
  const manifests = ['Cargo.toml', 'benches/Cargo.toml'].map((file) => readFileSync(join(ROOT, file), 'utf8'))
  return manifests.some((manifest) => manifest.includes(`name = "${name}"`))
}

function isInstalled(name: string): boolean {
  return name === manifest.name || name in manifest.devDependencies || name in manifest.peerDependencies
}
