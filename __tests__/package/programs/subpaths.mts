// A strict TypeScript program in ECMAScript modules that uses the subpaths whose peers it has
// installed.
import { fixedWindow, gcra, RateLimiter } from 'tollgate'
import { type ClientHits, TollgateStore } from 'tollgate/express-rate-limit'
import { type InstrumentOptions, instrument } from 'tollgate/metrics'

const options: InstrumentOptions = { name: 'api' }
const limiter = instrument(new RateLimiter(gcra({ limit: 10, period: '1s', burst: 3 })), options)
const once = instrument(new RateLimiter(fixedWindow({ limit: 1, window: '1m' })), options)
const { remaining } = limiter.takeSync('user:42')
const { status } = await once.take('user:42')

const store = new TollgateStore()
store.init({ windowMs: 60_000 })
const { totalHits }: ClientHits = await store.increment('user:42')
await store.shutdown()

console.log(JSON.stringify({ remaining, status, totalHits }))
