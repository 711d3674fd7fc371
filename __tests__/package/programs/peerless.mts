// A strict TypeScript program of all entry points that need no other package, without types of Node or of the web.
import * as tollgate from 'tollgate'
import * as aiSdk from 'tollgate/ai-sdk'
import * as bullmq from 'tollgate/bullmq'
import * as client from 'tollgate/client'
import * as estimate from 'tollgate/estimate'
import * as store from 'tollgate/express-rate-limit'
import * as mcp from 'tollgate/mcp'
import * as sockets from 'tollgate/socket.io'
import * as testing from 'tollgate/testing'
import * as wasm from 'tollgate/wasm'

const limiter = new tollgate.RateLimiter(tollgate.gcra({ limit: 10, period: '1s' }))
export const connections = sockets.limitConnections({ limiter })
export const hits = async (): Promise<store.ClientHits> => new store.TollgateStore().increment('a')
export const jobs = bullmq.rateLimited(async ({ id }: bullmq.LimitedJob) => id, { limiter, key: 'a' })
export const models = aiSdk.rateLimit({ limiter, key: 'a', maxWait: '5s' })
export const tools = mcp.limitTools({ limiter })
export const toolCalls = mcp.limitToolCalls({ limiter, key: 'a', maxWait: '5s' })
export const estimates = new estimate.UsageEstimator()
export const clock = new testing.TestClock()
export const outgoing = new client.OutgoingClient({ limiter: new wasm.RateLimiter(wasm.concurrency({ limit: 1 })) })
// @ts-expect-error the types are found: an unknown key
export const unknown = new client.OutgoingClient({ limiter, limit: 1 })
