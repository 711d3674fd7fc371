/** The app of the tests in protocols above HTTP: tRPC, and GraphQL by Yoga and Apollo. */
import { createServer } from 'node:http'
import { ApolloServer } from '@apollo/server'
import { expressMiddleware } from '@as-integrations/express5'
import { initTRPC, TRPCError } from '@trpc/server'
import { createHTTPHandler } from '@trpc/server/adapters/standalone'
import express from 'express'
import { buildSchema, GraphQLError, type GraphQLSchema } from 'graphql'
import { createYoga } from 'graphql-yoga'
import type { Decision } from '../../../ts/index.js'
import { rateLimitPlugin, useRateLimit } from '../../../ts/middleware/graphql.js'
import { rateLimit } from '../../../ts/middleware/trpc.js'
import { type Framework, listening, type Route, type Setup } from '../frameworks.js'

/** The paths of the tests. */
const PATHS = ['ok', 'slow', 'missing', 'thrown'] as const

type Headers = { readonly [name: string]: string | undefined }

interface Context {
  readonly req: { readonly headers: Headers }
  readonly rateLimit?: Decision
}

const trpc: Framework = {
  name: 'tRPC',
  hasAddress: false,
  header: ([call], name) => (call as { readonly ctx: Context }).ctx.req.headers[name],
  ask: ({ path = '/ok', ...ask }) => ({ ...ask, path: path === '/' ? '/ok' : path }),
  serve: async ({ options, route, onRequest }) => {
    const t = initTRPC.context<Context>().create()
    const limited = t.procedure.use(rateLimit(options as never) as never)
    const procedures = PATHS.map((path) => [
      path,
      limited.query(async ({ ctx }) => {
        const { status, body } = await route(`/${path}`, (ctx as Context).rateLimit)
        if (status === 404) {
          throw new TRPCError({ code: 'NOT_FOUND' })
        }
        return body
      }),
    ])
    const router = t.router(Object.fromEntries(procedures) as never)
    const createContext = ({ req }: { readonly req: object }) => ({ req })
    const handler = createHTTPHandler({ router, createContext: createContext as never })
    return listening(createServer(handler), undefined, onRequest)
  },
}

/** A schema with a field for each path. */
function schemaOf(route: Route): GraphQLSchema {
  const schema = buildSchema(`type Query { ${PATHS.map((path) => `${path}: String`).join(', ')} }`)
  for (const [path, field] of Object.entries(schema.getQueryType()?.getFields() ?? {})) {
    field.resolve = async (_: unknown, __: unknown, { rateLimit }: Context) => {
      const { status, body } = await route(`/${path}`, rateLimit)
      if (status === 404) {
        throw new GraphQLError('no such thing', { extensions: { http: { status } } })
      }
      return body
    }
  }
  return schema
}

function graphqlOf(name: string, appOf: (setup: Setup, schema: GraphQLSchema) => Promise<object>): Framework {
  return {
    name,
    hasAddress: false,
    header: ([call], header) => (call as { readonly context: Context }).context.req.headers[header],
    ask: ({ path = '/ok', headers, ...ask }) => ({
      ...ask,
      path: `/graphql?query={${path === '/' ? 'ok' : path.slice(1)}}`,
      headers: { ...headers, 'apollo-require-preflight': 'true' },
    }),
    serve: async (setup) => {
      const app = await appOf(setup, schemaOf(setup.route))
      return listening(createServer(app as never), undefined, setup.onRequest)
    },
  }
}

const yoga = graphqlOf('GraphQL Yoga', async ({ options }, schema) =>
  createYoga({ schema, plugins: [useRateLimit(options as never)], logging: false }),
)

const apollo = graphqlOf('Apollo Server', async ({ options }, schema) => {
  const server = new ApolloServer<Context>({
    schema,
    plugins: [rateLimitPlugin(options as never)],
    stopOnTerminationSignals: false,
  })
  await server.start()
  const context = async ({ req, res }: { readonly req: object; readonly res: object }) => ({ req, res }) as object
  return express().use('/graphql', express.json(), expressMiddleware(server, { context: context as never }) as never)
})

export const PROTOCOLS: readonly Framework[] = [trpc, yoga, apollo]
