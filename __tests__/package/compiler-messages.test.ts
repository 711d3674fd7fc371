/**
 * The errors of compilers for calls of methods that the limiter's policies do not have.
 */
import { createRequire } from 'node:module'
import { type CompilerAnswer, compilerAnswers } from '../../scripts/mistakes/compiler.cjs'

const load = createRequire(__filename)

const PRELUDE = `
import { concurrency, fixedWindow, gcra, RateLimiter, slidingCounter, tiers, tokenBucket } from 'tollgate'
const rate = gcra({ limit: 1, period: '1s' })
const limiter = new RateLimiter(rate)
const shared = new RateLimiter(rate, { store: 'redis://localhost', prefix: 'a' })
const quota = new RateLimiter(fixedWindow({ limit: 1, window: '1s' }))
const both = new RateLimiter({ rate, quota: fixedWindow({ limit: 1, window: '1s' }) })
const interval = new RateLimiter(tokenBucket({ capacity: 1, refill: { tokens: 1, every: '1s' }, refillMode: 'interval' }))
const counter = new RateLimiter(slidingCounter({ limit: 1, window: '1s' }))
const permits = new RateLimiter(concurrency({ limit: 1 }))
const jobs = new RateLimiter({ rate, jobs: concurrency({ limit: 1 }) }, { store: 'redis://localhost', prefix: 'b' })
const plans = new RateLimiter(tiers({ free: rate, pro: gcra({ limit: 9, period: '1s' }) }))
const mixed = new RateLimiter({ rate, ip: gcra({ limit: 1, period: '1s', per: 'ip' }) })
declare function admit(limiter: RateLimiter): void
`

const NOT_CALLABLE = 'This expression is not callable.'

const WAIT = 'wait needs policies made by gcra(), leakyBucket() or tokenBucket() with continuous refill: use'

const permitOf = (method: string) =>
  `${method} cannot be used with concurrency(): use acquire(key), which returns a permit to release`

const counterOf = (method: string) =>
  `${method} cannot be used with slidingCounter(), which only estimates earlier calls: use slidingWindow()`

/** Calls of methods that always fail, with the fix that the compiler shows. */
const UNAVAILABLE: readonly (readonly [call: string, fix: string])[] = [
  ["quota.wait('a')", `${WAIT} one of these, or take(key)`],
  ["both.wait('a')", `${WAIT} one of these, or take(key)`],
  ["interval.wait('a')", `${WAIT} one of these, or take(key)`],
  ["permits.wait('a')", `${WAIT} acquire(key, { maxWait })`],
  ["limiter.acquire('a')", 'acquire needs a policy made by concurrency({ limit }): use one, or take(key)'],
  ["counter.reserve('a', 1)", counterOf('reserve')],
  ["counter.settle('id')", counterOf('settle')],
  ["permits.reserve('a', 1)", 'reserve needs a policy beside concurrency(), whose units it settles: use acquire(key)'],
  ["permits.take('a')", permitOf('take')],
  ["permits.tryTake('a')", permitOf('tryTake')],
  ["permits.takeMany(['a'])", permitOf('takeMany')],
  ["permits.takeUpTo('a', 1)", permitOf('takeUpTo')],
  ["permits.penalize('a')", permitOf('penalize')],
  ["permits.takeSync('a')", permitOf('takeSync')],
  ["jobs.take('a')", permitOf('take')],
  ["shared.takeSync('a')", 'takeSync needs the embedded store: over Redis, await take(key)'],
]

const TIERS = '"free" | "pro"'

/** Other mistakes, with the first line of the answer. */
const OTHERS: readonly (readonly [call: string, line: string])[] = [
  ["plans.take('a')", 'Expected 2 arguments, but got 1.'],
  [
    "plans.take('a', { cost: 2 })",
    `Argument of type '{ cost: number; }' is not assignable to parameter of type 'TakeOptions & { readonly tier: ${TIERS}; }'.`,
  ],
  ["plans.take('a', { tier: 'gold' })", `Type '"gold"' is not assignable to type '${TIERS}'.`],
  [
    "limiter.take('a', { tier: 'free' })",
    "Object literal may only specify known properties, and 'tier' does not exist in type 'TakeOptions'.",
  ],
  [
    "mixed.take('a')",
    `Argument of type '"a"' is not assignable to parameter of type '"per must be given for all policies or for none"'.`,
  ],
  [
    'admit(permits)',
    "Argument of type 'EmbeddedRateLimiter<ConcurrencyPolicy>' is not assignable to parameter of type 'RateLimiter<Policies | Policy>'.",
  ],
  [
    'admit(plans)',
    `Argument of type 'EmbeddedRateLimiter<TieredPolicy<GcraPolicy, ${TIERS}>>' is not assignable to parameter of type 'RateLimiter<Policies | Policy>'.`,
  ],
]

const CALLS = [...UNAVAILABLE, ...OTHERS].map(([call]) => call)

describe.each(['typescript-5.4', 'typescript'])('%s', (compiler) => {
  let answers: ReadonlyMap<string, CompilerAnswer>

  beforeAll(() => {
    const start = PRELUDE.split('\n').length
    const program = `${PRELUDE}\n${CALLS.map((call) => `void ${call}`).join('\n')}\nexport {}\n`
    const [found = []] = compilerAnswers([program], load(compiler) as object)
    answers = new Map(found.map((answer) => [CALLS[answer.line - start] ?? `line ${answer.line}`, answer]))
  })

  test('finds these mistakes and no others', () => {
    expect([...answers.keys()]).toEqual(CALLS)
  })

  test.each(UNAVAILABLE)('%s', (call, fix) => {
    const lines =
      answers
        .get(call)
        ?.text.split('\n')
        .map((line) => line.trim()) ?? []
    expect(lines[0]).toBe(NOT_CALLABLE)
    expect(lines.at(-1)).toBe(`Type 'Unavailable<"${fix}">' has no call signatures.`)
  })

  test.each(OTHERS)('%s', (call, line) => {
    // The order of the members of a union differs between versions.
    const text = answers.get(call)?.text.split('\n')[0]?.replace('Policy | Policies', 'Policies | Policy')
    expect(text).toBe(line)
  })
})
