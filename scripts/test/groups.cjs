/**
 * The tests in groups that can run in parallel on separate machines. Every test file is in exactly
 * one group, which `__tests__/repository/groups.test.ts` checks.
 */

/**
 * @typedef {object} Group
 * @property {string} name
 * @property {string} title
 * @property {readonly string[]} tests Test files by their paths below `__tests__/`, without
 * `.test.ts`. `*` matches any name, and `{a,b}` either.
 * @property {readonly string[]} [cargo] The arguments of cargo.
 * @property {readonly string[]} [scripts] Scripts of `scripts/` that compile and run Rust, with their arguments.
 * @property {readonly string[]} [packages] The folders whose packages the tests need besides those
 * of `__tests__/`.
 * @property {readonly string[]} [system] The scripts of `scripts/` that install the programs that
 * the tests start, if they are missing.
 * @property {readonly string[]} [typed] The folders with a `tsconfig.json` of their own, which need
 * those packages.
 * @property {boolean} [wasm] Whether the tests need WebAssembly to be built.
 * @property {boolean} [isChecked] Whether format, lint, types and generated files are checked with
 * it.
 * @property {boolean} [isQuick] Whether `npm test` runs it.
 */

/** @type {readonly Group[]} */
const GROUPS = [
  {
    name: 'embedded',
    title: 'the embedded store, options, middleware, the command line: needs only Node.js',
    isQuick: true,
    tests: [
      'api/{bad-input,duration,events,limiter,mistakes,rtt-estimator,surplus,types,yield-tick}',
      'client/{answer,client,fetch,options}',
      'cli/{command-line,demo,format,log-line,pages,peaks,policy-text,reorder-buffer,simulate,suggest,terminal}',
      'fallback/{options,share}',
      'memory/{limiters,store,workers}',
      'metrics/{client,limiter}',
      'middleware/{bans,clients,counted-twice,delay,documented-keys,edge,fastify-routes,graphql,headers,invalid-input,ip-key,long-keys,nest-graphql,nest-limiters,nest-sockets,options,problems,request-ends,responses,socket.io,tiers,trpc,types}',
      'operations/{bad-input,conditions,tier-law}',
      'policies/calendar-window',
      'testing/*',
    ],
  },
  {
    name: 'core',
    title: 'the checks; units, twins, isolation and one pass of faults over a real Redis',
    isQuick: true,
    isChecked: true,
    system: ['ensure-redis'],
    // For the operations on its store, which `npm test` leaves out.
    wasm: true,
    tests: [
      'api/short-durations',
      'express-rate-limit/contract',
      'fallback/modes',
      'local/{lease-law,lease-options,leases,refusal-kinds,refusal-law,refusals,simulation}',
      'metrics/{prometheus,store}',
      'middleware/failures',
      'operations/{acquire,bans,block,many,extend,override,refund,reserve,tiers,units,update,wait,watch}',
      'policies/{count-refused,leaky-bucket,sliding-counter,sliding-log,sliding-window,token-bucket}',
      'redis/store',
      'redis/calls/{distance,duplicates,faked-timers,flushes,operations}',
      'redis/connection/{faults,inline-io,options}',
      'repository/*',
      'simulation/quick',
    ],
    cargo: ['test --lib'],
  },
  {
    name: 'engine',
    title: 'property tests and oracles of the engine',
    tests: [],
    cargo: ['test --profile test-optimized --test engine -- --skip redis::', 'test --doc'],
  },
  {
    name: 'engine-redis',
    title: 'property tests of the scripts in Redis: twins, isolation, faults, clusters',
    tests: [],
    system: ['ensure-redis'],
    cargo: ['test --profile test-optimized --test engine -- redis::'],
  },
  {
    name: 'redis',
    title: 'Redis: connections, lifetimes, processes, outages; the commands on it',
    system: ['ensure-redis'],
    tests: [
      'cli/redis/*',
      'client/processes',
      'express-rate-limit/middleware',
      'fallback/{changes,failures,outage}',
      'local/deadlines',
      'permits/{fairness,fallback,law,trace}',
      'policies/calendar-processes',
      'redis/calls/{holds,policy-registry,processes,waiting}',
      'redis/connection/{connection-options,lifetime,permissions,status}',
    ],
  },
  {
    name: 'cluster',
    title: 'Redis Cluster and Sentinel, TLS, and the servers that the tests start',
    system: ['ensure-redis'],
    tests: [
      'local/cluster',
      'operations/tiers-in-cluster',
      'permits/cluster',
      'redis/connection/{cluster,sentinel}',
      'servers/*',
    ],
  },
  {
    name: 'chaos',
    title: 'faults under load, and floods of keys',
    system: ['ensure-redis'],
    tests: ['chaos/*', 'memory/flood'],
  },
  {
    name: 'wasm',
    title: 'the engine as WebAssembly, embedded and over Redis',
    system: ['ensure-redis'],
    wasm: true,
    tests: ['wasm/*', 'wasm/redis/*'],
  },
  {
    name: 'simulation',
    title: 'a million random operations on all stores, with a clock that expires keys',
    system: ['ensure-redis'],
    wasm: true,
    tests: ['simulation/twins'],
  },
  {
    name: 'seeds',
    title: 'connections, clusters and the calls above them in virtual time: thousands of seeds of faults',
    tests: [],
    scripts: [
      'simulate.mjs --checks',
      'simulate.mjs --part connections --seeds 10000',
      'simulate.mjs --part calls --seeds 1000',
    ],
  },
  {
    name: 'models',
    title: 'what threads share, in every order in which they can run',
    tests: [],
    scripts: ['models.mjs'],
  },
  {
    name: 'fuzz',
    title: 'every decoder and all stores over the corpus of the fuzzers',
    tests: [],
    scripts: ['fuzz.mjs --checks', 'fuzz.mjs --replay'],
  },
  {
    name: 'package',
    title: 'the packed package: its files, and its use from several compilers, Jest and loaders',
    packages: ['__tests__/package', 'examples/next', 'playground/view'],
    typed: ['__tests__/package'],
    wasm: true,
    tests: ['package/*'],
  },
  {
    name: 'runtimes',
    title: 'the packed package on Deno, Bun and workerd',
    packages: ['__tests__/runtimes', 'playground/view'],
    system: ['ensure-redis'],
    wasm: true,
    tests: ['runtimes/*'],
  },
  {
    name: 'browser',
    title: 'the playground, reports and the site of the documentation in Chromium',
    packages: ['__tests__/browser', 'playground/view', 'docs', 'docs/site'],
    system: ['ensure-chromium'],
    typed: ['__tests__/browser', 'playground'],
    wasm: true,
    tests: ['browser/*', 'playground/*'],
  },
  {
    name: 'docs',
    title: 'the code and claims of the pages, programs before and after migrating, the examples, the demo',
    packages: ['__tests__/docs', 'docs'],
    system: ['ensure-redis'],
    typed: ['__tests__/docs'],
    wasm: true,
    tests: ['docs/*', 'examples/*'],
  },
]

/**
 * A Jest pattern for test files. None of its characters is special to a shell inside double quotes.
 */
function patternOf(tests) {
  const choices = tests.map((test) =>
    test.replaceAll('*', '[^/]+').replaceAll('{', '(').replaceAll('}', ')').replaceAll(',', '|'),
  )
  return `__tests__/(${choices.join('|')})[.]test[.]ts`
}

/** The group of a test file, by its path below `__tests__/`. */
function groupOf(file) {
  const [group, ...others] = GROUPS.filter(({ tests }) => new RegExp(`^${patternOf(tests)}$`).test(`__tests__/${file}`))
  if (group === undefined || others.length > 0) {
    const names = [group, ...others].map((one) => one?.name ?? 'none')
    throw new Error(`${file} must be in one group of scripts/test/groups.cjs, and is in: ${names.join(', ')}`)
  }
  return group
}

module.exports = { GROUPS, groupOf, patternOf }
