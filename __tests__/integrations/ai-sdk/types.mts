/** The types of `tollgate/ai-sdk` suit those of the AI SDK 6 and 7: `tsc` checks this file. */

import type { LanguageModelV4, LanguageModelV4CallOptions } from '@ai-sdk/provider'
import type { LanguageModelV3CallOptions, LanguageModelV3Middleware } from '@ai-sdk/provider-3'
import type { LanguageModelMiddleware, wrapLanguageModel } from 'ai'
import type { LanguageModelMiddleware as LanguageModelMiddleware6, wrapLanguageModel as wrapLanguageModel6 } from 'ai-6'
import { type ModelCallParams, type ModelMiddleware, rateLimit } from '../../../ts/ai-sdk/index.js'
import { UsageEstimator } from '../../../ts/estimate/index.js'
import { calendarWindow, concurrency, fixedWindow, gcra, RateLimiter, tiers } from '../../../ts/index.js'

declare const middleware: ModelMiddleware
export const of7: LanguageModelMiddleware = middleware
export const of6: LanguageModelMiddleware6 = middleware
export const v3: LanguageModelV3Middleware = middleware
export const wrapped7 = (wrap: typeof wrapLanguageModel, model: LanguageModelV4) => wrap({ model, middleware })
export const wrapped6 = (wrap: typeof wrapLanguageModel6, ...[{ model }]: Parameters<typeof wrapLanguageModel6>) =>
  wrap({ model, middleware })

declare const params: LanguageModelV4CallOptions & LanguageModelV3CallOptions
export const read: ModelCallParams = params

// The key, the tier and the cost have the types of the limiter.
const tokens = gcra({ limit: 1_000, period: '1m', meter: 'tokens' })
const cents = calendarWindow({ limit: 1_000, every: 'month', meter: 'cents' })
rateLimit({ limiter: new RateLimiter(tokens), key: 'a', costOf: ({ inputTokens }) => ({ tokens: inputTokens }) })
rateLimit({ limiter: new RateLimiter(fixedWindow({ limit: 5, window: '1m' })), costOf: (used) => used.outputTokens })
rateLimit({
  limiter: new RateLimiter({ tokens, cents, atOnce: concurrency({ limit: 5, meter: 'answers', defaultCost: 1 }) }),
  key: ({ params, modelId }) => `${params.prompt.length} ${modelId}`,
  estimate: new UsageEstimator(),
  costOf: ({ inputTokens, outputTokens }) => ({ cents: inputTokens + 5 * outputTokens }),
})
const keyed = new RateLimiter({
  a: { ...tokens, per: 'user' as const },
  b: gcra({ limit: 1, period: '1s', per: 'team' }),
})
rateLimit({ limiter: keyed, key: { user: 'ann', team: 'search' } })
rateLimit({ limiter: keyed, key: async () => ({ user: 'ann', team: 'search' }) })
const tiered = new RateLimiter({ tokens: tiers({ free: tokens, pro: tokens }) })
rateLimit({ limiter: tiered, key: 'a', tier: () => 'pro' })
// @ts-expect-error The limiter has no such tier.
rateLimit({ limiter: tiered, key: 'a', tier: 'gold' })
// @ts-expect-error The limiter has no such meter.
rateLimit({ limiter: new RateLimiter(tokens), costOf: () => ({ cents: 5 }) })
// @ts-expect-error The key has no such part.
rateLimit({ limiter: keyed, key: 'a' })
