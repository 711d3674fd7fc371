/**
 * The tests of the gate in groups that can run in parallel on separate machines. Every test file is
 * in exactly one group, which `__tests__/repository/groups.test.ts` checks. `*.deep.test.ts` belong
 * to the search: scripts/test/search.mjs.
 */

/**
 * @typedef {object} Group
 * @property {string} name
 * @property {string} title
 * @property {readonly string[]} tests Test files by their paths below `__tests__/`, without
 * `.test.ts`. `*` matches any name, and `{a,b}` either.
 * @property {readonly string[]} [onWasm] Test files of the groups of `npm test`, which run here on
 * WebAssembly only.
 * @property {readonly string[]} [cargo] The arguments of cargo.
 * @property {readonly string[]} [scripts] Scripts, relative to the root, with their arguments.
 * @property {readonly string[]} [reads] The files and folders that `cargo` and `scripts` read; in a
 * group without these, those that the tests read, if not the whole tree.
 * @property {boolean} [isRecorded] Whether `passed.json` has the contents with which these passed.
 * @property {readonly string[]} [packages] The folders whose packages the tests need besides those
 * of `__tests__/`.
 * @property {readonly string[]} [system] The scripts of `scripts/` that install the programs that
 * the tests start, if they are missing.
 * @property {readonly string[]} [typed] The folders with a `tsconfig.json` of their own, which need
 * those packages.
 * @property {boolean} [wasm] Whether the tests need WebAssembly to be built.
 * @property {boolean} [isQuick] Whether `npm test` runs it.
 */

/** The engine's sources. */
const ENGINE = ['Cargo.toml', 'Cargo.lock', 'scripts/build.rs', 'src', 'lua', '.cargo']

/** @type {readonly Group[]} */
const GROUPS = [
  {
    name: 'embedded',
    title: 'the embedded store, options, middleware, the command line: needs only Node.js',
    isQuick: true,
    tests: [
      'ai-sdk/*',
      'mcp/*',
      'api/{bad-input,duration,events,limiter,meter-errors,meter-types,method-types,mistakes,rtt-estimator,surplus,types,undefined-store,yield-tick}',
      'bullmq/*',
      'client/{answer,client,contexts,failures,fetch,heap,leaving,map,meters,options,pauses,queue,timers,usage}',
      'cli/{command-line,demo,format,local-servers,log-line,output,pages,peaks,policy-text,terminal}',
      'estimate/*',
      'fallback/{options,share}',
      'memory/{limiters,store,workers}',
      'metrics/{client,limiter}',
      'middleware/contract/{answers,attack,gone,pipelined}',
      'middleware/{clients,complexity,counted-twice,delay,documented-keys,edge,fastify-routes,graphql,graphql-clients,headers,invalid-input,ip-key,long-keys,meters,nest-graphql,nest-limiters,nest-sockets,options,problems,responses,socket.io,tiers,trpc,types,web-clients}',
      'operations/{bad-input,conditions,tier-law}',
      'testing/*',
    ],
  },
  {
    name: 'core',
    title: 'units, twins, isolation and one pass of faults over a real Redis; the rules of the repository',
    isQuick: true,
    system: ['ensure-redis'],
    tests: [
      'api/short-durations',
      'express-rate-limit/contract',
      'fallback/{meters,modes}',
      'local/{elapsed-clock,lease-law,lease-options,leases,refusal-kinds,refusal-law,refusals,simulation}',
      'metrics/prometheus',
      'middleware/failures',
      'operations/{acquire,bans,block,deciding-tier,ids,many,meters,extend,override,owed,refund,permit-ids,reserve,settled-permits,tiers,times,units,update,wait,watch}',
      'permits/{linked-list,patience}',
      'policies/{count-refused,leaky-bucket,sliding-counter,sliding-log,sliding-window,token-bucket}',
      'redis/store',
      'redis/calls/{distance,duplicates,faked-timers,flushes,operations,repeated}',
      'redis/connection/{faults,inline-io,options}',
      'repository/*',
      'simulation/quick',
    ],
  },
  {
    name: 'redis',
    title: 'Redis: connections, lifetimes, processes, outages; all that computes for long, as the replay of logs',
    system: ['ensure-redis'],
    tests: [
      'cli/redis/*',
      'cli/{reorder-buffer,simulate,suggest}',
      'client/{processes,shared}',
      'express-rate-limit/middleware',
      'fallback/{changes,failures}',
      'local/deadlines',
      'memory/flood',
      'metrics/store',
      'permits/{fairness,fallback,law,settling,trace}',
      'policies/{calendar-processes,calendar-window,new-algorithm}',
      'redis/calls/{budgets,holds,policy-registry,processes,waiting}',
      'redis/connection/{connection-options,healthy-session,hostile-server,lifetime,permissions,status,unsuitable-servers}',
    ],
  },
  {
    name: 'cluster',
    title: 'Redis Cluster and Sentinel',
    system: ['ensure-redis'],
    tests: [
      'local/cluster',
      'operations/tiers-in-cluster',
      'permits/cluster',
      'redis/connection/{cluster,cluster-nodes,sentinel}',
    ],
    cargo: ['test --test engine -- redis::cluster'],
    reads: [...ENGINE, 'tests/engine'],
  },
  {
    name: 'servers',
    title: 'the servers, certificates and proxies that the tests start',
    system: ['ensure-redis'],
    tests: ['servers/*'],
    reads: [
      '__tests__/servers',
      '__tests__/jest.config.cjs',
      '__tests__/package-lock.json',
      'scripts/ensure-redis.mjs',
    ],
    isRecorded: true,
  },
  {
    name: 'chaos',
    title: 'the measurements of the chaos tests, of the soak and of the fault report, and their documents',
    packages: ['tests/faults'],
    system: ['ensure-redis'],
    tests: ['chaos/*', 'faults/*'],
  },
  {
    name: 'wasm',
    title: 'the engine as WebAssembly, embedded and over Redis; all stores on one random trace',
    system: ['ensure-redis'],
    wasm: true,
    tests: ['wasm/*', 'wasm/redis/*', 'middleware/rate-limit-headers', 'simulation/twins'],
    onWasm: [
      'api/short-durations',
      'operations/{acquire,bans,block,ids,many,meters,extend,override,owed,refund,permit-ids,reserve,settled-permits,tiers,times,units,update,wait}',
    ],
  },
  {
    name: 'seeds',
    title: 'connections, clusters and the calls above them in virtual time, with faults by seed',
    tests: [],
    wasm: true,
    scripts: [
      'scripts/simulate.mjs --checks',
      'scripts/simulate.mjs --part connections --seeds 500',
      'scripts/simulate.mjs --part calls --seeds 100',
    ],
    reads: [...ENGINE, 'tests/simulation', 'ts', 'scripts/simulate.mjs', 'scripts/wasm', 'package.json'],
  },
  {
    name: 'models',
    title: 'what threads share, in every order in which they can run',
    tests: [],
    scripts: ['scripts/models.mjs'],
    reads: [...ENGINE, 'scripts/models.mjs'],
    isRecorded: true,
  },
  {
    name: 'fuzz',
    title: 'every decoder and all stores over the corpus of the fuzzers',
    tests: [],
    wasm: true,
    scripts: ['scripts/fuzz.mjs --checks', 'scripts/fuzz.mjs --replay'],
    reads: [...ENGINE, 'tests/fuzz', 'ts', 'scripts/fuzz.mjs', 'scripts/wasm', 'package.json'],
    isRecorded: true,
  },
  {
    name: 'guard',
    title: 'the instructions of the hot paths; the lints of all crates, and the examples of the engine',
    tests: [],
    system: ['ensure-valgrind'],
    cargo: ['clippy --workspace --all-targets -- -D warnings', 'test --doc'],
    scripts: ['tests/benches/guard/main.mjs'],
    reads: [
      ...ENGINE,
      ...['Cargo.toml', 'engine.rs', 'governor.rs', 'guard', 'guard.json'].map((file) => `tests/benches/${file}`),
    ],
    isRecorded: true,
  },
  {
    name: 'package',
    title: 'the packed package: its files, and its use from several compilers, bundlers, Jest and loaders',
    packages: ['__tests__/package', '__tests__/bundlers', 'examples/next', 'examples/playground/view'],
    typed: ['__tests__/package'],
    wasm: true,
    tests: ['package/*', 'bundlers/*'],
  },
  {
    name: 'runtimes',
    title: 'the packed package on Deno, Bun and workerd',
    packages: ['__tests__/runtimes', 'examples/playground/view'],
    system: ['ensure-redis'],
    wasm: true,
    tests: ['runtimes/*'],
  },
  {
    name: 'integrations',
    title: 'adapters and recipes with the real libraries: MCP, AI SDK, BullMQ, SDKs of models, hosts, site frameworks',
    packages: ['__tests__/integrations'],
    system: ['ensure-redis'],
    typed: ['__tests__/integrations'],
    wasm: true,
    tests: ['integrations/*/*'],
  },
  {
    name: 'browser',
    title: 'the playground, reports and the site of the documentation in Chromium',
    packages: ['__tests__/browser', 'examples/playground/view', 'docs', 'docs/site'],
    system: ['ensure-chromium'],
    typed: ['__tests__/browser', 'examples/playground'],
    wasm: true,
    tests: ['browser/*', 'playground/*'],
  },
  {
    name: 'docs',
    title: 'the code and claims of the pages, programs before and after migrating, the examples, the demo',
    packages: ['__tests__/docs', '__tests__/integrations', 'docs'],
    system: ['ensure-redis'],
    typed: ['__tests__/docs'],
    wasm: true,
    tests: ['docs/*', 'examples/*'],
  },
]

/** The Jest tests of the search. */
const DEEP = {
  name: 'deep',
  title: 'random schedules, and real servers under load',
  tests: ['*/*.deep', '*/*/*.deep'],
  system: ['ensure-redis'],
  wasm: true,
}

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
  const choices = file.endsWith('.deep.test.ts') ? [DEEP] : GROUPS
  const [group, ...others] = choices.filter(({ tests }) =>
    new RegExp(`^${patternOf(tests)}$`).test(`__tests__/${file}`),
  )
  if (group === undefined || others.length > 0) {
    const names = [group, ...others].map((one) => one?.name ?? 'none')
    throw new Error(`${file} must be in one group of scripts/test/groups.cjs, and is in: ${names.join(', ')}`)
  }
  return group
}

module.exports = { DEEP, ENGINE, GROUPS, groupOf, patternOf }
