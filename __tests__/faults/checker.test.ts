/** The checker of the fault report, on fabricated logs. */
import { spawnSync } from 'node:child_process'
import { dirname } from 'node:path'

const ROOT = dirname(dirname(__dirname))

interface Call {
  readonly key: string
  readonly cost: number
  readonly start: number
  readonly end?: number
  readonly outcome?: 'allowed' | 'refused' | 'failed'
  readonly starvedMs?: number
}

interface Figures {
  readonly beyond: number
  readonly refusedFree: number
  readonly unanswered: number
  readonly lost?: number
  readonly doubled?: number
  readonly recoverySeconds?: number | null
}

/** A call on one key that is answered after a millisecond. */
function call(start: number, outcome: Call['outcome'], cost = 1): Call {
  return { key: 'a', cost, start, end: start + 1, ...(outcome && { outcome }) }
}

/** `count` calls, one every 10 ms. */
function calls(count: number, outcome: Call['outcome'], from = 0): Call[] {
  return Array.from({ length: count }, (_, index) => call(from + 10 * index, outcome))
}

/** The figures of each log. The checker is an ES module, which Jest does not load. */
function figuresOf(...logs: readonly (readonly [log: readonly Call[], facts: object])[]): Figures[] {
  const program = `
    import { figures } from './tests/faults/harness/checker.mjs'
    const logs = JSON.parse(process.argv[1])
    console.log(JSON.stringify(logs.map(([log, facts]) => figures(log, facts))))`
  const words = ['--input-type=module', '--eval', program, JSON.stringify(logs)]
  const { status, stdout, stderr } = spawnSync(process.execPath, words, { cwd: ROOT, encoding: 'utf8' })
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  return JSON.parse(stdout)
}

test('units above the limit are found for each key, and in the fullest window', () => {
  const other = calls(12, 'allowed').map((one) => ({ ...one, key: 'b' }))
  const twoWindows = [...calls(10, 'allowed', 900), ...calls(10, 'allowed', 1_010)]
  const [none, some, sliding, apart] = figuresOf(
    [calls(10, 'allowed'), { limit: 10 }],
    [[...calls(13, 'allowed'), ...other], { limit: 10 }],
    [twoWindows, { limit: 10, windowMs: 1_000 }],
    // The same calls with a whole window between them.
    [[...calls(10, 'allowed'), ...calls(10, 'allowed', 1_000)], { limit: 10, windowMs: 910 }],
  )
  expect([none, some, sliding, apart].map((figures) => figures?.beyond)).toEqual([0, 5, 10, 0])
})

test('a call that only may lie within a window is not counted in it', () => {
  const slow = { ...call(0, 'allowed'), end: 1_500 }
  const [figures] = figuresOf([[slow, ...calls(10, 'allowed', 1_600)], { limit: 10, windowMs: 1_650 }])
  expect(figures?.beyond).toBe(0)
})

test('a refusal is counted only if there was certainly room', () => {
  const full = calls(10, 'allowed')
  const [free, used, maybe, costly] = figuresOf(
    [[...calls(9, 'allowed'), call(200, 'refused')], { limit: 10 }],
    [[...full, call(200, 'refused')], { limit: 10 }],
    [[...calls(9, 'allowed'), call(150, 'failed'), call(200, 'refused')], { limit: 10 }],
    [[...calls(9, 'allowed'), call(200, 'refused', 2)], { limit: 10 }],
  )
  expect([free, used, maybe, costly].map((figures) => figures?.refusedFree)).toEqual([1, 0, 0, 0])
})

test('missing and late answers are found, without the time for which the process did not run', () => {
  const late = { ...call(0, 'allowed'), end: 6_000 }
  const { end: _, outcome: __, ...missing } = call(0, undefined)
  const [figures] = figuresOf([[late, missing, { ...late, starvedMs: 2_000 }, call(0, 'allowed')], { limit: 10 }])
  expect(figures?.unanswered).toBe(2)
})

test('lost and doubled charges are found, and failed calls are neither', () => {
  const log = [...calls(5, 'allowed'), ...calls(2, 'failed', 100), ...calls(3, 'refused', 200)]
  const counted = [4, 5, 7, 8].map((units) => [log, { limit: 10, remaining: { a: 10 - units } }] as const)
  const found = figuresOf(...counted).map(({ lost, doubled }) => [lost, doubled])
  expect(found).toEqual([
    [1, 0],
    [0, 0],
    [0, 0],
    [0, 1],
  ])
})

test('recovery ends with the first answer after the last failure', () => {
  const healed = { limit: 100, healedMs: 1_000 }
  const [at, later, never, slow] = figuresOf(
    [[...calls(5, 'failed', 900), ...calls(5, 'allowed', 1_010)], healed],
    [[...calls(5, 'failed', 1_900), ...calls(5, 'refused', 2_000)], healed],
    [[...calls(5, 'allowed', 1_010), ...calls(5, 'failed', 2_000)], healed],
    [[{ ...call(1_000, 'allowed'), end: 2_500 }], healed],
  )
  expect([at, later, never, slow].map((figures) => figures?.recoverySeconds)).toEqual([0, 1, null, 1.5])
})
