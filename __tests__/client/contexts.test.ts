/** The async context in which a client calls the functions of its callers. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { OutgoingClient } from '../../ts/client/index.js'
import { concurrency, MemoryStore, RateLimiter } from '../../ts/index.js'
import { TestClock } from '../../ts/testing/index.js'

test('a function runs in the context of its caller, whichever call its turn came from, and again when it is retried', async () => {
  const clock = new TestClock()
  const context = new AsyncLocalStorage<string>()
  const limiter = new RateLimiter(concurrency({ limit: 1 }), { store: new MemoryStore({ clock }), prefix: 'out' })
  const api = new OutgoingClient({ clock, limiter, key: 'k' })
  const names = ['first', 'second', 'third']
  const seen: string[] = []
  const calls = names.map((name) =>
    context.run(name, () =>
      api.schedule(
        ({ attempt }) => {
          seen.push(`${name} in ${context.getStore()}`)
          return { status: attempt === 1 ? 503 : 200, headers: {} }
        },
        { isIdempotent: true },
      ),
    ),
  )
  await clock.advance('1m')
  await Promise.all(calls)
  expect(seen.sort()).toEqual(names.flatMap((name) => [`${name} in ${name}`, `${name} in ${name}`]).sort())
})
