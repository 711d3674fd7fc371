// A strict TypeScript program in CommonJS that uses tRPC, GraphQL, Socket.IO and the test clock.
import { initTRPC } from '@trpc/server'
import { parse } from 'graphql'
import { fixedWindow, MemoryStore, RateLimiter } from 'tollgate'
import { complexityOf, type GraphqlCall, rateLimitPlugin, useRateLimit } from 'tollgate/graphql'
import { limitConnections, limitEvents } from 'tollgate/socket.io'
import { TestClock } from 'tollgate/testing'
import { rateLimit } from 'tollgate/trpc'

async function main(): Promise<void> {
  const clock = new TestClock()
  const limiter = new RateLimiter(fixedWindow({ limit: 2, window: '1h' }), { store: new MemoryStore({ clock }) })

  const t = initTRPC.context<{ readonly user: string }>().create()
  const limited = t.procedure.use(rateLimit({ limiter, key: ({ ctx }) => ctx.user }))
  const router = t.router({ hello: limited.query(({ ctx }) => ctx.rateLimit?.remaining) })
  const remaining = await router.createCaller({ user: 'ann' }).hello()
  await clock.advance('1h')

  const key = ({ context }: GraphqlCall<{ readonly user: string }>) => context.user
  const values: readonly unknown[] = [
    useRateLimit({ limiter, key, cost: complexityOf }).onExecute,
    rateLimitPlugin({ limiter, key }).requestDidStart,
    limitConnections({ limiter }),
    limitEvents({ limiter, key: ({ handshake }) => handshake.address }),
    // @ts-expect-error the types are found: missing key
    () => [useRateLimit({ limiter }), t.procedure.use(rateLimit({ limiter }))],
  ]

  console.log(
    JSON.stringify({
      remaining,
      again: limiter.takeSync('ann').remaining,
      cost: complexityOf({ document: parse('{ users(first: 3) { name } }') }),
      functions: values.every((value) => typeof value === 'function'),
    }),
  )
}

void main()
