// Uses features that set timers, each within an AsyncLocalStorage context, and prints those that keep their context
// when their calls have ended. The stores, limiters and clients live on.
import { AsyncLocalStorage } from 'node:async_hooks'
import { setImmediate as tick } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { concurrency, fixedWindow, gcra, MemoryStore, RateLimiter, RedisStore, watchPolicies } from 'tollgate'
import { OutgoingClient } from 'tollgate/client'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc')

const [url] = process.argv.slice(2)
const context = new AsyncLocalStorage()
const lives = []
const keep = (value) => {
  lives.push(value)
  return value
}
const store = keep(new RedisStore({ url, commandTimeout: 30_000 }))
const limiterOf = (policy, options) => keep(new RateLimiter(policy, options))
const jobs = concurrency({ limit: 1, ttl: '1h' })

const held = limiterOf(jobs, { store, prefix: 'held' })
const queued = limiterOf(jobs, { store: new MemoryStore(), prefix: 'queued' })
const leased = limiterOf(fixedWindow({ limit: 1_000_000, window: '1d' }), {
  store,
  prefix: 'leased',
  local: { lease: '1m' },
})
const plain = limiterOf(gcra({ limit: 1_000, period: '1s' }), { store, prefix: 'plain' })
const watched = limiterOf(gcra({ limit: 1_000, period: '1s' }), { store: new MemoryStore() })
const client = keep(
  new OutgoingClient({ limiter: limiterOf(gcra({ limit: 100, period: '1s' }), { store: new MemoryStore() }) }),
)

const USES = {
  'a call': () => plain.take('key'),
  'a permit that is held': async () => keep(await held.acquire('key')),
  'calls that wait for a permit': async () => {
    const first = await queued.acquire('key')
    const second = queued.acquire('key', { maxWait: 3_600_000 })
    await tick()
    await first.release()
    keep(await second)
  },
  leases: async () => {
    for (let call = 0; call < 50; call++) {
      await Promise.all(Array.from({ length: 20 }, () => leased.take('key')))
    }
  },
  'a wait': () => plain.wait('waited'),
  'watched policies': async () => keep(watchPolicies(watched, () => gcra({ limit: 7, period: '1s' }), { every: '1h' })),
  'a paused key of a client': async () => {
    const refused = { status: 429, headers: { 'retry-after': '3600' } }
    await client.schedule(() => refused, { key: 'key' }).catch(() => {})
  },
}

const contexts = []
for (const [name, use] of Object.entries(USES)) {
  let own = { name }
  contexts.push([name, new WeakRef(own)])
  await context.run(own, use)
  own = undefined
}
const kept = () => contexts.filter(([, own]) => own.deref() !== undefined).map(([name]) => name)
for (let round = 0; round < 100 && kept().length > 0; round++) {
  await tick()
  collectGarbage()
}
console.log(JSON.stringify(kept()))
process.exit()
