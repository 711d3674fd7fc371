// A strict TypeScript program of the modules that run on any platform, without types of Node or of the web.
import { gcra, MemoryStore, RateLimiter as Native } from 'tollgate'
import { type ModelRateLimitOptions, rateLimit } from 'tollgate/ai-sdk'
import { OutgoingClient } from 'tollgate/client'
import { type EstimateOptions, UsageEstimator, type UsageEstimatorOptions } from 'tollgate/estimate'
import { type HeaderForm, rateLimitHeaders } from 'tollgate/headers'
import { limitToolCalls, limitTools, type ToolLimitOptions } from 'tollgate/mcp'
import { TestClock } from 'tollgate/testing'
import { concurrency, type Permit, RateLimiter, type RedisClient, RedisStore } from 'tollgate/wasm'

const clock = new TestClock()
const native = new Native(gcra({ limit: 10, period: '1s', burst: 1 }), { store: new MemoryStore({ clock }) })
export const client = new OutgoingClient({ limiter: native, key: 'a', clock })
export const overClient = (given: RedisClient) => RedisStore.from(given)

const budget: ModelRateLimitOptions = { limiter: native, key: ({ modelId }) => modelId, clock }
export const models = rateLimit(budget)

const ofTools: ToolLimitOptions = { limiter: native, skip: ({ tool }) => tool === 'ping' }
export const tools = limitTools(ofTools)
export const toolCalls = limitToolCalls({ limiter: native, key: ({ name }) => name, clock })

const options: UsageEstimatorOptions = { quantile: 0.99 }
const bounds: EstimateOptions = { known: 100, atMost: native.policies.default.burst }
export const units: number = new UsageEstimator(options).estimate('model:large', 4_096, bounds)

const permits = new RateLimiter(concurrency({ limit: 1 }))
export const permit: Permit = await permits.acquire('a')
const form: HeaderForm = 'draft-8'
export const headers: { readonly [name: string]: string } = rateLimitHeaders(native, await native.take('a'), {
  headers: form,
})
