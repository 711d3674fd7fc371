/**
 * Every non-program block of the pages: each language has a check, and a block without one is
 * refused.
 */
import { parser as promql } from '@prometheus-io/lezer-promql'
import { parseList } from 'structured-headers'
import { parse as parseYaml } from 'yaml'
import { COMPILED } from './compile.js'
import { blocks, pages, placeOf } from './pages.js'
import { wrongCommands } from './shell.js'

/** The error of a block in a language, if any. */
const CHECKS: Readonly<Record<string, (code: string) => readonly string[]>> = {
  sh: wrongCommands,
  json: (code) => thrownBy(() => JSON.parse(code)),
  yaml: (code) => thrownBy(() => parseYaml(code)),
  promql: (code) => errorsIn(code),
  http: (code) => lines(code).flatMap(wrongField),
}

/** Blocks that cannot be checked, by page, with their content. */
const UNCHECKED: Readonly<Record<string, string>> = {
  'ARCHITECTURE.md': 'diagrams of the way of a call',
  'docs/command-line.md': 'what inspect and top print: tests of the command line have their words',
}

const others = blocks.filter(({ language }) => !COMPILED.includes(language))

test('every block is in a language that is checked', () => {
  const unknown = others.filter(({ language }) => CHECKS[language] === undefined)
  const unlisted = unknown.filter(({ page, language }) => language !== 'text' || UNCHECKED[page] === undefined)
  expect(unlisted.map((block) => `${placeOf(block)} ${block.language}`)).toEqual([])
})

test.each(Object.keys(CHECKS))('every block of %s is well formed', (kind) => {
  const errors = others
    .filter(({ language }) => language === kind)
    .flatMap((block) => {
      return (CHECKS[kind]?.(block.code) ?? []).map((reason) => `${placeOf(block)} ${reason}`)
    })
  expect(errors).toEqual([])
})

test('every npm command in the text exists', () => {
  const all = pages.flatMap(({ path, commands }) =>
    commands.map(([line, command]) => ({ place: `${path}:${line}`, command })),
  )
  const errors = all.flatMap(({ place, command }) => wrongCommands(command).map((reason) => `${place} ${reason}`))
  expect(errors).toEqual([])
})

test.each([
  ['sh', 'npm ci && npm run demmo   # draws', 'npm run demmo: no such script: demmo'],
  ['sh', 'npm run bench -- reddis --rounds 3', 'npm run bench -- reddis --rounds 3: no such part: reddis'],
  ['sh', 'npm run bench:report -- sclae-keys', 'npm run bench:report -- sclae-keys: no such part: sclae-keys'],
  ['sh', 'npm run report:faults -- --only nobody', 'npm run report:faults -- --only nobody: no such contender: nobody'],
  ['sh', 'npm run chaos -- --only freese', 'npm run chaos -- --only freese: no such fault: freese'],
  ['sh', 'npm install tolgate', 'npm install tolgate: no such package: tolgate'],
  ['sh', 'REDIS_URL=redis://localhost node examples/exress.mjs', /no such file: examples\/exress.mjs$/],
  [
    'sh',
    'cargo bench -p tollgate-benches --bench motor',
    'cargo bench -p tollgate-benches --bench motor: no such target: motor',
  ],
  ['sh', 'npx jset', 'npx jset: no such binary: jset'],
  ['sh', 'make', 'make: no such program: make'],
  ['json', '{ "a": 1, }', /JSON/],
  ['yaml', 'a: [1', /./],
  ['promql', 'sum(rate(tollgate_decisions_total[5m])', /./],
  ['http', 'RateLimit: "burst";r=;t=1', /^RateLimit: /],
  ['http', 'Retry-After: soon', /^Retry-After: /],
  ['http', 'RateLimit "burst"', /^RateLimit "burst"/],
])('%s: detects the error in %s', (kind, code, reason) => {
  expect(CHECKS[kind]?.(code)).toEqual([typeof reason === 'string' ? reason : expect.stringMatching(reason)])
})

function lines(code: string): string[] {
  return code.split('\n').filter((line) => line !== '')
}

/**
 * A line of a response's head: structured fields, and the older Retry-After with its plain number.
 */
function wrongField(line: string): string[] {
  const [, name, value = ''] = /^([A-Za-z-]+): (.*)$/.exec(line) ?? []
  if (name === undefined || (name === 'Retry-After' && !/^\d+$/.test(value))) {
    return [line]
  }
  return thrownBy(() => parseList(value)).map((error) => `${name}: ${error}`)
}

function errorsIn(query: string): string[] {
  const errors: string[] = []
  promql.parse(query).iterate({
    enter: ({ type, from }) => {
      if (type.isError) {
        errors.push(`error at ${from}`)
      }
    },
  })
  return errors
}

function thrownBy(action: () => unknown): string[] {
  try {
    action()
    return []
  } catch (error) {
    return [String(error)]
  }
}
