/**
 * Common mistakes of users. The error or the warning of each must name the fix.
 * `node scripts/mistakes.mjs` prints them, and writes docs/mistakes.md; `__tests__/api/mistakes.test.ts` checks that
 * each fails or emits a warning, and that the message names the fix. A text in a list begins a section of the page.
 */

/** The request and the response of a user who is not logged in. */
const request = {
  headers: {},
  ip: '192.0.2.1',
  socket: { remoteAddress: '192.0.2.1' },
  app: { get: () => false },
  query: {},
}

/** A response that sends nothing. It calls `done` when it is answered. */
function responseTo(done) {
  const response = { statusCode: 200, headersSent: false, once: () => {}, getHeader: () => {}, setHeader: () => {} }
  return Object.assign(response, { status: () => response, type: () => response, send: done, json: done })
}

/** @type {typeof import('./table.cjs').mistakesOf} */
function mistakesOf(tollgate, rateLimit) {
  const { gcra, tokenBucket, leakyBucket, fixedWindow, calendarWindow, concurrency } = tollgate
  const { slidingWindow, slidingCounter, slidingLog } = tollgate
  const { tiers } = tollgate
  const { MemoryStore, RateLimiter, RedisStore } = tollgate
  const limiter = new RateLimiter(gcra({ limit: 10, period: '1s' }))
  const quota = new RateLimiter(fixedWindow({ limit: 10, window: '1m' }))
  const login = new RateLimiter({
    ip: gcra({ limit: 20, period: '1m', per: 'ip' }),
    account: gcra({ limit: 5, period: '1h', per: 'account' }),
  })
  // No server listens there: the calls fail before anything is sent.
  const redis = new RedisStore({ url: 'redis://127.0.0.1:9', commandTimeout: 50 })
  const shared = new RateLimiter(gcra({ limit: 10, period: '1s' }), { store: redis, prefix: 'mistakes' })
  /** The form of the methods in `ioredis` and node-redis. */
  const client = { call: async () => 0, options: {} }
  const createClient = () => ({ sendCommand: async () => 0 })
  const policy = gcra({ limit: 10, period: '1s' })
  const hourly = new RateLimiter(gcra({ limit: 1, period: '1h', burst: 1 }))
  const daily = new RateLimiter(gcra({ limit: 1, period: '1d', burst: 1 }))
  const keys = ['ann', 'bob']
  const plans = new RateLimiter(
    tiers({ free: gcra({ limit: 1, period: '1s' }), pro: gcra({ limit: 9, period: '1s' }) }),
  )
  const model = new RateLimiter({
    calls: gcra({ limit: 10, period: '1s' }),
    tokens: gcra({ limit: 1_000, period: '1s', meter: 'tokens' }),
  })
  const permits = new RateLimiter(concurrency({ limit: 1 }))
  const counter = new RateLimiter(slidingCounter({ limit: 10, window: '1m' }))

  /** @type {readonly (string | readonly [run: () => unknown, hint: RegExp, name?: 'TypeError'])[]} */
  const table = [
    'Names of other libraries, and typing errors',
    [() => gcra({ points: 10, duration: 1 }), /did you mean "limit"\?/],
    [() => gcra({ limit: 10, duration: 1 }), /did you mean "period"\?/],
    [() => gcra({ limit: 10, windowMs: 60_000 }), /did you mean "period"\?/],
    [() => gcra({ max: 10, period: '1s' }), /did you mean "limit"\?/],
    [() => gcra({ limit: 10, interval: '1s' }), /did you mean "period"\?/],
    [() => gcra({ limit: 10, period: '1s', brust: 20 }), /did you mean "burst"\?/],
    [() => gcra({ limit: 10, period: '1s', maxBurst: 20 }), /did you mean "burst"\?/],
    [() => fixedWindow({ max: 100, windowMs: 60_000 }), /did you mean "limit"\?/],
    [() => fixedWindow({ limit: 100, windowMs: 60_000 }), /did you mean "window"\?/],
    [() => fixedWindow({ limit: 100, period: '1m' }), /did you mean "window"\?/],
    [() => slidingWindow({ limit: 100, interval: '1m' }), /did you mean "window"\?/],
    [() => slidingLog({ points: 5, window: '15m' }), /did you mean "limit"\?/],
    [() => tokenBucket({ limit: 20, refill: { tokens: 5, every: '1s' } }), /did you mean "capacity"\?/],
    [() => tokenBucket({ capacity: 20, refillRate: 5 }), /did you mean "refill"\?/],
    [() => tokenBucket({ capacity: 20, refill: { tokens: 5, interval: '1s' } }), /did you mean "every"\?/],
    [() => tokenBucket({ capacity: 20, refill: 5 }), /tokens, every/],
    [() => leakyBucket({ capacity: 20, leak: { tokens: 5, every: '1s' } }), /did you mean "units"\?/],
    [() => concurrency({ limit: 5, expires: '1m' }), /did you mean "ttl"\?/],
    [() => calendarWindow({ limit: 100, period: 'day' }), /did you mean "every"\?/],
    [() => calendarWindow({ limit: 100, every: 'day', timezone: 'Asia/Shanghai' }), /did you mean "timeZone"\?/],
    [() => calendarWindow({ limit: 100, every: 'day', tz: 'Asia/Shanghai' }), /did you mean "timeZone"\?/],
    [() => new RateLimiter(policy, { keyPrefix: 'api' }), /did you mean "prefix"\?/],
    [() => new RateLimiter(policy, { storeClient: client }), /did you mean "store"\?/],
    [() => new RateLimiter(policy, { redis: client }), /did you mean "store"\?/],
    [() => new RateLimiter(policy, { store: redis, prefix: 'api', insuranceLimiter: limiter }), /"onStoreFailure"\?/],
    [() => new RedisStore({ url: 'redis://localhost', timeout: 100 }), /did you mean "commandTimeout"\?/],
    [() => new RedisStore({ url: 'redis://localhost', db: 1 }), /did you mean "database"\?/],
    [() => new MemoryStore({ maxkeys: 1_000 }), /did you mean "maxKeys"\?/],
    [
      () => rateLimit({ windowMs: 60_000, max: 100 }),
      /did you mean "limiter"\? Write { limiter: new RateLimiter\(gcra\({ limit, period }\)\) }/,
    ],
    [() => rateLimit({ limiter, keyGenerator: () => 'ann' }), /did you mean "key"\?/],
    [() => rateLimit({ limiter, status: 403 }), /did you mean "statusCode"\?/],
    [() => rateLimit({ limiter, requestPropertyName: 'limit' }), /did you mean "requestProperty"\?/],
    [() => rateLimit({ limiter, onStoreFailure: 'allow' }), /new RateLimiter\(policy, { onStoreFailure }\)/],
    [() => rateLimit({ limiter, prefix: 'api' }), /new RateLimiter\(policy, { prefix }\)/],
    [() => rateLimit({ limiter, passOnStoreError: true }), /did you mean "onError"\?/],
    [() => rateLimit({ limiter, ipv6Subnet: 64 }), /did you mean "key"\?/],
    [
      () => new RateLimiter(policy, { points: 10, duration: 1 }),
      /policy: new RateLimiter\(gcra\({ limit, period }\)\)/,
    ],
    [() => new RateLimiter(policy, { windowMs: 1_000 }), /policy: new RateLimiter\(gcra\({ limit, period }\)\)/],
    [() => new RateLimiter(policy, { keyGenerator: () => 'ann' }), /the key is an argument of take\(key\)/],
    [() => new RateLimiter(policy, { blockDuration: 60 }), /did you mean "blockFor"\?/],
    [() => new RateLimiter({ windowMs: 1_000, max: 10 }), /new RateLimiter\(gcra\({ limit, period }\)\)/],
    [() => rateLimit(limiter), /rateLimit\({ limiter }\)/],
    [() => rateLimit(policy), /limiter/],
    [() => rateLimit({ limiter: policy }), /must be a RateLimiter, got an object: new RateLimiter\(policy\)/],

    'Numbers and durations',
    [() => gcra({ limit: '10', period: '1s' }), /a number, not a string/],
    [() => gcra({ limit: 0.5, period: '1s' }), /whole number from 1/],
    [() => gcra({ limit: 0, period: '1s' }), /whole number from 1/],
    [() => gcra({ limit: -10, period: '1s' }), /whole number from 1/],
    [() => gcra({ limit: Infinity, period: '1s' }), /whole number from 1 to 2\^53 - 1/],
    [() => gcra({ limit: Number(undefined), period: '1s' }), /whole number from 1 .* got NaN/],
    [() => gcra({ limit: 10, period: '1s', burst: 0 }), /burst must be a whole number from 1/],
    [() => gcra({ limit: 10, period: '10 S' }), /did you mean '10s'\?/],
    [() => gcra({ limit: 10, period: '1  min' }), /did you mean '1m'\?/],
    [() => gcra({ limit: 10, period: 0.5 }), /write '0.5s' if seconds are meant/],
    [() => gcra({ limit: 10, period: 'minute' }), /did you mean '1m'\?/],
    [() => gcra({ limit: 10, period: '60' }), /did you mean '60s'\?/],
    [() => gcra({ limit: 10, period: '1 month' }), /'1d'/],
    [() => gcra({ limit: 10, period: 0 }), /above 0/],
    [() => gcra({ limit: 10 }), /period must be .* '1m'/],
    [() => gcra(10, '1s'), /gcra\({ limit, period }\)/],
    [() => gcra(), /limit, period/],
    [() => calendarWindow({ limit: 10, every: 'year' }), /'hour', 'day', 'week', 'month'/],
    [() => calendarWindow({ limit: 10, every: '7d' }), /'week'/],
    [() => calendarWindow({ limit: 10, every: 'day', timeZone: 'CEST' }), /'Europe\/Berlin'/],
    [() => calendarWindow({ limit: 10, every: 'day', timeZone: 'Berlin' }), /'Europe\/Berlin'/],
    [() => calendarWindow({ limit: 10, every: 'day', timeZone: 2 }), /'Europe\/Berlin'/],

    'Limiters and stores',
    [() => RateLimiter(policy), /'new'/, 'TypeError'],
    [() => RedisStore('redis://localhost'), /'new'/, 'TypeError'],
    [() => new RateLimiter(), /gcra\({ limit, period }\)/],
    [() => new RateLimiter({ limit: 10, period: '1s' }), /new RateLimiter\(gcra\({ limit, period }\)/],
    [() => new RateLimiter({ points: 10, duration: 1 }), /new RateLimiter\(gcra\({ limit, period }\)/],
    [() => new RateLimiter({ policy: { limit: 10, period: '1s' } }), /gcra\({ limit, period }\)/],
    [() => new RateLimiter(gcra), /gcra\({ limit, period }\)/],
    [() => new RateLimiter('gcra'), /gcra\({ limit, period }\)/],
    [() => new RateLimiter(10, '1s'), /gcra\({ limit, period }\)/],
    [() => new RateLimiter({ algorithm: 'tokens', limit: 10 }), /"tokenBucket"/],
    [() => new RateLimiter([policy, policy]), /an object .*by name/],
    [() => new RateLimiter(policy, policy), /several policies are one object/],
    [() => new RateLimiter({ store: redis, policy }), /store .*second argument/],
    [() => new RateLimiter({ a: policy, b: gcra({ limit: 1, period: '1s', per: 'ip' }) }), /per must be given for all/],
    [() => new RateLimiter(policy, { store: redis }), /prefix is required/],
    [() => new RateLimiter(policy, { store: redis, prefix: 'my api' }), /letters, digits, _/],
    [() => new RateLimiter(policy, { store: redis, prefix: 'api:' }), /leave out the colon at the end/],
    [
      () => new RateLimiter(policy, { store: client, prefix: 'api' }),
      /new RedisStore\(url\) connects by itself; 'tollgate\/wasm' accepts a client: RedisStore\.from/,
    ],
    [() => new RateLimiter(policy, { store: createClient(), prefix: 'api' }), /RedisStore\.from\(client\)/],
    [() => new RateLimiter(policy, { store: RedisStore, prefix: 'api' }), /new RedisStore/],
    [() => new RateLimiter(policy, { store: 'redis', prefix: 'api' }), /redis:\/\//],
    [() => new RateLimiter(policy, { store: 'localhost:6379', prefix: 'api' }), /redis:\/\//],
    [() => new RateLimiter(policy, { store: 'http://localhost:6379', prefix: 'api' }), /redis:\/\//],
    [() => new RedisStore('https://eu1.upstash.io'), /RedisStore\.from/],
    [() => new RedisStore(client), /RedisStore\.from\(client\)/],
    [() => new RedisStore(createClient()), /RedisStore\.from\(client\)/],
    [() => new RedisStore(), /url/],
    [() => new RedisStore({}), /url/],
    [() => new RedisStore('localhost', 6379), /got a port: write new RedisStore\({ host, port }\)/],
    [() => new RedisStore(6379, 'localhost'), /got a port: write new RedisStore\({ host, port }\)/],
    [() => new RedisStore(new URL('redis://localhost')), /write new RedisStore\(url\.href\)/],
    [() => new RedisStore({ host: 'localhost', port: '6379' }), /port must be a whole number/],
    [() => new RedisStore({ host: 'localhost:6379' }), /port/],
    [() => new RedisStore({ url: 'redis://localhost', host: 'localhost' }), /one of url, host/],
    [() => RedisStore.from(client), /tollgate\/wasm/],
    [() => new RateLimiter(policy, { store: redis, prefix: 'a', onStoreFailure: 'open' }), /'allow'/],
    [() => new RateLimiter(policy, { store: redis, prefix: 'a', onStoreFailure: () => true }), /'allow'/],
    [() => new RateLimiter(policy, { store: redis, prefix: 'a', onStoreFailure: { embedded: true } }), /share/],
    [() => new RateLimiter(policy, { store: redis, prefix: 'a', onStoreFailure: { share: 1 } }), /embedded/],

    'Calls',
    [() => limiter.take(), /key must be a string/],
    [() => limiter.take(''), /key must not be empty/],
    [() => limiter.take(42), /String\(\)/],
    [() => limiter.take({ ip: '192.0.2.1' }), /per/],
    [() => limiter.take(['ann', 'bob']), /takeMany/],
    [() => limiter.take('ann', 0), /whole number from 1/],
    [() => limiter.take('ann', -1), /whole number from 1/],
    [() => limiter.take('ann', '2'), /a number, not a string/],
    [() => limiter.take('ann', { points: 2 }), /did you mean "cost"\?/],
    [() => limiter.take('ann', { weight: 2 }), /did you mean "cost"\?/],
    [() => limiter.takeMany('ann'), /an array of keys/],
    [() => limiter.takeMany(['ann', 'bob'], [1]), /a cost for each/],
    [() => limiter.isAllowed('ann'), /isAllowed is not a function/, 'TypeError'],
    [() => limiter.consume('ann'), /consume is not a function/, 'TypeError'],
    [() => login.take('ann'), /{ ip, account }/],
    [() => login.take({ ip: '192.0.2.1' }), /key\.account/],
    [() => login.take({ ip: '192.0.2.1', user: 'ann' }), /{ ip, account }/],
    [() => login.take({ ip: '192.0.2.1', account: 7 }), /key\.account .*String\(\)/],
    [() => limiter.wait('ann', { timeout: 1_000 }), /did you mean "maxWait"\?/],
    [() => limiter.wait('ann', { maxWait: '5000' }), /write 5000, or '5000ms'/],
    [() => limiter.refund('ann'), /the object that take/],
    [async () => limiter.refund({ ...(await limiter.take('ann')) }), /for a copy, .* give the units and { key }/],
    [() => limiter.refund(limiter.take('ann')), /await/],
    [() => limiter.penalize('ann', 0), /whole number from 1/],
    [() => limiter.reserve('ann'), /units must be a whole number/],
    [() => limiter.block('ann'), /duration must be .*'10s'/],
    [() => limiter.block('ann', '1 Hour'), /did you mean '1h'\?/],
    [() => limiter.override('ann', { points: 50 }, { ttl: '1d' }), /did you mean "limit"\?/],
    [() => limiter.override('ann', 50, { ttl: '1d' }), /limit/],
    [() => limiter.override('ann', { limit: 50 }), /ttl/],
    [() => limiter.override('ann', { limit: 50 }, '1d'), /ttl/],
    [() => login.override({ ip: '192.0.2.1' }, { limit: 50 }, { ttl: '1d' }), /ip, account/],

    'Methods of other policies',
    [() => quota.wait('ann'), /gcra\(\)/],
    [() => permits.wait('ann'), /acquire\(key, { maxWait }\)/],
    [() => permits.take('ann'), /use acquire\(key\)/],
    [() => permits.tryTake('ann'), /use acquire\(key\)/],
    [() => permits.takeSync('ann'), /use acquire\(key\)/],
    [() => limiter.acquire('ann'), /concurrency\({ limit }\), or use take\(key\)/],
    [() => counter.reserve('ann', 1), /cannot be used with slidingCounter/],
    [() => shared.takeSync('ann'), /await take/],
    [() => rateLimit({ limiter: permits }), /concurrency/],
    [async () => limiter.refund((await limiter.reserve('dan', 1)).decision), /the object that take/],

    'Tiers',
    [() => plans.take('ann'), /tier must be one of "free", "pro"/],
    [() => plans.take('ann', 2), /tier must be one of "free", "pro"/],
    [() => plans.take('ann', { tier: 'gold' }), /tier must be one of "free", "pro"/],
    [() => plans.take('ann', { plan: 'pro' }), /tier/],
    [() => limiter.take('ann', { tier: 'pro' }), /make the limiter with tiers/],
    [() => new RateLimiter({ free: policy, pro: tiers({ free: policy, pro: policy }) }).take('ann'), /tier/],

    'Meters',
    [() => model.take('ann'), /tokens is missing; write cost: { tokens: 5 }/],
    [() => model.take('ann', 500), /write take\(key, { cost: { tokens: 5 } }\)/],
    [() => model.take('ann', { cost: 500 }), /write cost: { tokens: 5 }/],
    [() => model.take('ann', { tokens: 500 }), /write take\(key, { cost: { tokens: … } }\)/],
    [() => model.take('ann', { cost: { token: 500 } }), /did you mean "tokens"\?/],
    [() => model.take('ann', { cost: { tokens: '500' } }), /cost\.tokens .*a number, not a string/],
    [() => model.penalize('ann', 500), /write units: { tokens: 5 }/],
    [() => model.reserve('ann', 500), /write units: { tokens: 5 }/],
    [() => model.takeUpTo('ann', 500), /use take\(key, { cost: { tokens: 5 } }\)/],
    [() => limiter.take('ann', { cost: { tokens: 5 } }), /write cost: 5, or meter: 'tokens' in a policy/],
    [() => rateLimit({ limiter: model }), /tokens is missing; write cost: { tokens: 5 }/],
    [() => rateLimit({ limiter: model, cost: 5 }), /must be an object by meter/],
    [() => gcra({ limit: 10, period: '1s', meters: 'tokens' }), /did you mean "meter"\?/],
    [() => gcra({ limit: 10, period: '1s', defaultCost: 5 }), /needs a meter/],
    [
      () => tiers({ free: gcra({ limit: 1, period: '1s' }), pro: gcra({ limit: 9, period: '1s', meter: 'tokens' }) }),
      /use a limiter for each/,
    ],

    'Surplus arguments',
    [() => gcra({ limit: 10, period: '1s' }, { limit: 100, period: '1m' }), /write gcra\({ limit, period }\)/],
    [() => gcra({ limit: 10, period: '1s' }, 20), /write gcra\({ limit, period }\)/],
    [() => fixedWindow(100, '1m'), /write fixedWindow\({ limit, window }\)/],
    [() => slidingWindow({ limit: 100 }, '1m'), /write slidingWindow\({ limit, window }\)/],
    [() => slidingLog(5, '15m'), /write slidingLog\({ limit, window }\)/],
    [() => slidingLog({ limit: 3, window: '1s' }, { limit: 9, window: '1m' }), /or slidingLog\({ limits }\)/],
    [() => slidingCounter(100, '1m'), /write slidingCounter\({ limit, window }\)/],
    [() => tokenBucket(20, { tokens: 5, every: '1s' }), /refill: { tokens, every }/],
    [() => leakyBucket(20, { units: 5, every: '1s' }), /leak: { units, every }/],
    [() => calendarWindow(100, 'day'), /write calendarWindow\({ limit, every }\)/],
    [() => [{ limit: 10, period: '1s' }].map(gcra), /write gcra\({ limit, period }\)/],
    [() => new RateLimiter(policy, {}, 'api'), /write new RateLimiter\(policy, { store, prefix }\)/],
    [() => new RateLimiter(policy, policy, policy), /new RateLimiter\({ a: policy, b: policy }\)/],
    [() => new RedisStore({ host: 'localhost' }, { commandTimeout: 100 }), /put all options in one object/],
    [() => new MemoryStore({ maxKeys: 1_000 }, { name: 'a' }), /put all options in one object/],
    [() => rateLimit(limiter, { headers: false }), /write rateLimit\({ limiter }\)/],
    [() => limiter.take('a', 1, 2), /one object, { cost, tag }/],
    [() => limiter.take('a', 1, { tag: 'x' }), /one object, { cost, tag }/],
    [
      () => Promise.all(keys.map(limiter.take, limiter)),
      /write \(key\) => limiter\.take\(key\), or .*takeMany\(keys\)/,
    ],
    [() => keys.map(limiter.takeSync, limiter), /write \(key\) => limiter\.takeSync\(key\)/],
    [() => Promise.all(keys.map(limiter.peek, limiter)), /write \(key\) => limiter\.peek\(key\)/],
    [() => Promise.all(keys.map(limiter.reset, limiter)), /write \(key\) => limiter\.reset\(key\)/],
    [() => Promise.all(keys.map(limiter.wait, limiter)), /write \(key\) => limiter\.wait\(key\)/],
    [() => limiter.takeMany('ann', 'bob', 'cy'), /write takeMany\(\[key, …\], \[cost, …\]\)/],

    'Waits that cannot succeed',
    [async () => [await hourly.wait('a'), await hourly.wait('a', { maxWait: 5_000 })], /raise maxWait, or .*onTooLong/],
    [async () => [await daily.wait('a'), await daily.wait('a')], /more than the largest maxWait .* make fewer calls/],
    [() => hourly.wait('b', { cost: 2 }), /largest cost is 1; lower the cost or raise the limit/],
    [async () => [await hourly.block('c', '1h'), await hourly.wait('c')], /try again in .*, or use onTooLong/],
    [() => shared.wait('a', { maxWait: 7_200_000 }), /maxWait must be a whole number from 0 to 3600000/],
  ]

  /** Valid, but probably a mistake: each emits one warning. */
  const warned = [
    [() => gcra({ limit: 100, period: 60 }), /write '60s' if seconds are meant/],
    [() => fixedWindow({ limit: 100, window: 60 }), /write '60s' if seconds are meant/],
    [() => tokenBucket({ capacity: 20, refill: { tokens: 5, every: 1 } }), /write '1s' if seconds are meant/],
    [() => limiter.block('cy', 300), /write '300s' if seconds are meant/],
    [() => limiter.reserve('cy', 1, { ttl: 30 }), /write '30s' if seconds are meant/],
    [() => limiter.override('cy', { limit: 50 }, { ttl: 600 }), /write '600s' if seconds are meant/],
  ]

  /** Middlewares without a key for a user who is not logged in. */
  const middlewares = [
    [() => rateLimit({ limiter, key: (req) => req.user }), /key must be a string, got undefined\n.*onInvalidInput/],
    [() => rateLimit({ limiter, key: (req) => req.user.id }), /key threw a TypeError at .*\n.*onInvalidInput/],
    [() => rateLimit({ limiter, key: () => '' }), /key must not be empty\nReturn a key/],
    [() => rateLimit({ limiter, key: () => 42 }), /convert it with String\(\)/],
    [
      () => rateLimit({ limiter, cost: (req) => Number(req.query.n) }),
      /cost must be .* got NaN\n.*Return a key and a cost/,
    ],
    [() => rateLimit({ limiter: login, key: () => 'ann' }), /key must be an object: { ip, account }/],
    [() => rateLimit({ limiter: login, key: (req) => ({ ip: req.ip }) }), /key\.account must be a string/],
    [
      () => rateLimit({ limiter }),
      /Set the addresses of your proxies \(Express: trust proxy/,
      { 'x-forwarded-for': '192.0.2.9' },
    ],
  ]
  /** Settings and middlewares of an app that admit clients too often, or count them twice. */
  const apps = [
    [
      "app.set('trust proxy', true).use(rateLimit({ limiter }))",
      () => through(rateLimit({ limiter }), { ...request, app: { get: () => true } }),
      /Set the addresses of your proxies \(Express: trust proxy/,
    ],
    [
      'app.use(rateLimit({ limiter }), rateLimit({ limiter }))',
      async () => {
        const sent = { ...request }
        await through(rateLimit({ limiter }), sent)
        await through(rateLimit({ limiter }), sent)
      },
      /Remove one of its middlewares, or give the route a limiter of its own/,
    ],
  ]
  /** Mistakes that only the compiler finds: what happens when they run. */
  const silent = [
    ["if (limiter.take('ann')) keys.push('admitted')", 'a promise is always true: every call is admitted'],
    ["if (await limiter.take('ann')) keys.push('admitted')", 'an object is always true: use tryTake, or its `allowed`'],
    ["(await limiter.take('ann')).success", 'the property is `undefined`: use `allowed`'],
    ["(await limiter.take('ann')).remainingPoints", 'the property is `undefined`: use `remaining`'],
    ["limiter.takeSync('ann').retryAfterMs.toFixed()", 'it is `null` if the cost can never fit'],
  ]
  /** Imports, which fail before anything runs. */
  const imports = [
    "import tollgate from 'tollgate'",
    "import { rateLimit } from 'tollgate'",
    "import { RateLimiterRedis } from 'tollgate'",
    "import { RedisStore } from 'tollgate/redis'",
  ]
  const called = (run) => String(run).replace(/^(async )?\(\) => /, '')
  const through = (middleware, sent) => new Promise((done) => middleware(sent, responseTo(done), done))
  const mistakes = [
    ...inSections(table).map(([section, [run, hint, name]]) => {
      return { section, call: called(run), run, hint, ...(name && { name }) }
    }),
    ...warned.map(([run, hint]) => ({ section: 'Probable mistakes', call: called(run), run, hint, isWarning: true })),
    ...apps.map(([call, run, hint]) => ({ section: 'Middleware', call, run, hint, isWarning: true })),
    ...middlewares.map(([make, hint, headers = {}]) => {
      const run = () => through(make(), { ...request, headers })
      return { section: 'Middleware', call: called(make), run, hint, isWarning: true }
    }),
  ]
  return { mistakes, silent, imports, close: () => redis.close() }
}

/** The entries of a list, each with the text before them. */
function inSections(list) {
  let section = ''
  return list.flatMap((entry) => {
    section = typeof entry === 'string' ? entry : section
    return typeof entry === 'string' ? [] : [[section, entry]]
  })
}

module.exports = { mistakesOf }
