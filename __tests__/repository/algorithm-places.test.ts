/**
 * The places that a new algorithm changes: CONTRIBUTING.md lists them, and no other file of the
 * package has a list of all algorithms.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { POLICY_KINDS } from '../../ts/backends/protocol.js'
import { algorithmOf, type Policy } from '../../ts/policies/policy.js'
import { SAMPLES } from '../policies/samples.js'

const ROOT = join(__dirname, '..', '..')

/** The names of algorithms in Rust, Lua and TypeScript. */
const ALGORITHMS = [
  /gcra/i,
  /leaky_?bucket/i,
  /token_?bucket/i,
  /fixed_?window/i,
  /calendar_?window/i,
  /sliding_?window/i,
  /sliding_?counter/i,
  /sliding_?log/i,
  /concurrency/i,
]

/** Generated from `scripts/protocol.mjs`. */
const GENERATED = ['src/protocol.rs', 'ts/backends/protocol.ts']

/** A file with this many names has a list of the algorithms. */
const LIST = ALGORITHMS.length - 1

const section =
  /^## A new algorithm\n(.*?)^## /ms.exec(readFileSync(join(ROOT, '.github', 'CONTRIBUTING.md'), 'utf8'))?.[1] ?? ''

function paths(text: string): string[] {
  return [...text.matchAll(/`([\w./_-]+\/[\w./-]*)`/g)].map(([, path]) => path as string)
}

function isUnder(path: string): (place: string) => boolean {
  return (place) => (place.endsWith('/') ? path.startsWith(place) : path === place)
}

test('every list of algorithms is in one of these places', () => {
  const places = [...paths(section), '__tests__/', ...GENERATED]
  const files = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: ROOT })
  const lists = files
    .toString()
    .split('\0')
    .filter((file) => /\.(rs|lua|m?ts|tsx|mjs|cjs)$/.test(file) && existsSync(join(ROOT, file)))
    .filter((file) => {
      const text = readFileSync(join(ROOT, file), 'utf8')
      return ALGORITHMS.filter((name) => name.test(text)).length >= LIST
    })
  expect(lists).not.toEqual([])
  expect(lists.filter((file) => !places.some(isUnder(file)))).toEqual([])
})

test('every kind of policy has a sample', () => {
  const kinds = Object.values<Policy>(SAMPLES).map((policy) => algorithmOf(policy).encode(policy)[0])
  // `take` cannot be used with it: `operations/acquire` has its samples.
  kinds.push('concurrency')
  expect(kinds.sort()).toEqual(Object.keys(POLICY_KINDS).sort())
})
