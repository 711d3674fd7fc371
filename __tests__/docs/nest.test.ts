/** The modules of docs/middleware/nest.md, unchanged, in apps over real sockets. */
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo'
import type { Type } from '@nestjs/common'
import { GraphQLModule, Query, Resolver } from '@nestjs/graphql'
import { io } from 'socket.io-client'
import { decorate, withApp } from '../middleware/nest-apps.js'
import { blocks } from './pages.js'
import { run } from './run.js'

/** The module of the only block that has a text. */
async function moduleWith(text: string): Promise<Type> {
  const found = blocks.filter(({ page, code }) => page === 'docs/middleware/nest.md' && code.includes(text))
  expect(found).toHaveLength(1)
  const { exports } = await run<{ readonly AppModule: Type }>(found[0] as (typeof blocks)[number])
  return exports.AppModule
}

test('named limiters', async () => {
  await withApp({ imports: [await moduleWith("@RateLimit('login')")] }, async (url) => {
    const post = (path: string) => fetch(`${url}/${path}`, { method: 'POST' })
    expect((await post('login')).headers.get('RateLimit')).toMatch(/^"login";r=5;/)
    expect((await post('reset-password')).headers.get('RateLimit')).toMatch(/^"login";r=0;/)
    expect([(await post('login')).status, (await post('reset-password')).status]).toEqual([429, 429])
  })
})

test('GraphQL', async () => {
  class Hello {
    hello() {
      return 'hello'
    }
  }
  Resolver()(Hello)
  decorate(Hello, 'hello', Query('hello'))
  const graphql = GraphQLModule.forRoot<ApolloDriverConfig>({
    driver: ApolloDriver,
    typeDefs: 'type Query { hello: String }',
  })
  await withApp({ imports: [await moduleWith('GqlExecutionContext'), graphql], providers: [Hello] }, async (url) => {
    const fields = Array.from({ length: 101 }, (_, index) => `a${index}: hello`).join(' ')
    const response = await fetch(`${url}/graphql`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ query: `{ ${fields} }` }),
    })
    const { errors } = (await response.json()) as { errors: readonly { readonly extensions: object }[] }
    expect(errors).toMatchObject([{ extensions: { code: 'TOO_MANY_REQUESTS', status: 429 } }])
  })
})

test('a gateway of Socket.IO', async () => {
  await withApp({ imports: [await moduleWith('WebSocketGateway')] }, async (url) => {
    const client = io(url, { transports: ['websocket'], reconnection: false })
    try {
      const refused = new Promise((resolve) => client.once('exception', resolve))
      let answers = 0
      client.on('chat', () => answers++)
      for (let count = 0; count < 101; count++) {
        client.emit('chat', {})
      }
      expect(await refused).toMatchObject({ status: 429, retryAfterMs: expect.any(Number) })
      expect(answers).toBeLessThanOrEqual(100)
    } finally {
      client.disconnect()
    }
  })
})
