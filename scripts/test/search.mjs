/** The parts of the search, `npm run test:deep`: tests that draw new cases, take long, or judge time. */

import { DEEP, patternOf } from './groups.cjs'

const JEST = 'node __tests__/node_modules/jest/bin/jest.js --config __tests__/jest.config.cjs'

/**
 * @typedef {object} Part
 * @property {string} name
 * @property {string} title
 * @property {number} minutes About how long the whole part takes on two cores.
 * @property {boolean} [isWhole] Whether the part runs either whole or not at all. Others run a share
 * of their cases if there is less time.
 * @property {(draw: Draw) => readonly import('./steps.mjs').Step[]} steps
 */

/**
 * @typedef {object} Draw What the search draws.
 * @property {number} seed Below 2^31.
 * @property {(count: number) => number} share The share of a count that there is time for, at least
 * one.
 */

/** @type {readonly Part[]} */
export const PARTS = [
  {
    name: 'properties',
    title: 'the laws, oracles and twins of the engine, on random traces',
    minutes: 30,
    steps: ({ seed, share }) => [
      {
        name: 'properties',
        command: 'cargo test --profile test-optimized --test engine',
        env: { CARGO_BUILD_TARGET: 'host-tuple', PROPTEST_RNG_SEED: `${seed}`, TOLLGATE_CASES: `${share(1_000)}` },
      },
    ],
  },
  {
    name: 'twins',
    title: 'a million random operations on all stores, under one clock that expires keys',
    minutes: 15,
    steps: ({ seed, share }) => [
      jestStep('twins', ['simulation/twins'], { TOLLGATE_SEED: seed, TOLLGATE_SIMULATED: share(1_000_000) }),
    ],
  },
  {
    name: 'laws',
    title: 'the laws of tiers, refunds, leases, cached refusals and permits, on random schedules',
    minutes: 15,
    steps: ({ seed, share }) => [
      jestStep(
        'laws',
        ['operations/tier-law', 'local/{lease-law,refusal-kinds,refusal-law}', 'permits/{law,patience}'],
        {
          TOLLGATE_SEED: seed,
          TOLLGATE_CASES: share(1_000),
        },
      ),
    ],
  },
  {
    name: 'seeds',
    title: 'connections, clusters and the calls above them in virtual time, with faults by seed',
    minutes: 25,
    steps: ({ seed, share }) => [
      script('seeds of connections', `simulate.mjs --part connections --seeds ${share(10_000)} --from ${seed}`),
      script('seeds of calls', `simulate.mjs --part calls --seeds ${share(1_000)} --from ${seed}`),
    ],
  },
  {
    name: 'schedules',
    title: 'random schedules of processes and faults on real servers',
    minutes: 10,
    isWhole: true,
    steps: ({ seed }) => [jestStep('schedules', DEEP.tests, { TOLLGATE_DEEP: 'on', TOLLGATE_SEED: seed })],
  },
  {
    name: 'chaos',
    title: 'all faults of real servers, under load',
    minutes: 15,
    isWhole: true,
    steps: () => [{ name: 'chaos', command: 'npm run --silent chaos' }],
  },
  {
    name: 'soak',
    title: 'all features for an hour under changing faults; the process does not grow',
    minutes: 60,
    steps: ({ seed, share }) => [
      { name: 'soak', command: `npm run --silent soak -- --minutes ${share(60)} --seed ${seed}` },
    ],
  },
  {
    name: 'fuzz',
    title: 'every decoder and all stores, under mutated inputs',
    minutes: 40,
    steps: ({ share }) => [script('fuzz', `fuzz.mjs --replay --seconds ${share(300)}`)],
  },
  {
    name: 'models',
    title: 'what threads share, in every order',
    minutes: 20,
    isWhole: true,
    steps: () => [script('models', 'models.mjs')],
  },
  {
    name: 'sanitizers',
    title: 'AddressSanitizer and ThreadSanitizer',
    minutes: 40,
    isWhole: true,
    steps: () => [script('address', 'sanitize.mjs address'), script('thread', 'sanitize.mjs thread')],
  },
  {
    name: 'defects',
    title: 'each defect of scripts/defects/ is found when it is put into the sources',
    minutes: 150,
    isWhole: true,
    steps: () => [script('defects', 'defects.mjs')],
  },
  {
    name: 'reproducible',
    title: 'two builds in two folders are equal',
    minutes: 15,
    isWhole: true,
    steps: () => [script('reproducible', 'check-reproducible.mjs')],
  },
  {
    name: 'platforms',
    title: 'all groups that use Node.js, on its other versions',
    minutes: 60,
    isWhole: true,
    steps: () => [script('platforms', 'platforms.mjs')],
  },
]

function jestStep(name, tests, env) {
  const texts = Object.fromEntries(Object.entries(env).map(([key, value]) => [key, `${value}`]))
  return { name, command: `${JEST} --maxWorkers=2 "${patternOf(tests)}"`, env: texts }
}

function script(name, words) {
  return { name, command: `node scripts/${words}` }
}
