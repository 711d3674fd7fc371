/**
 * Budgets for language models of the AI SDK (`ai` 6 and 7): a middleware for `wrapLanguageModel`.
 *
 * Each call of a model reserves an estimate before it is sent, and charges the usage that the provider reports. Needs
 * neither Node.js nor the addon.
 *
 * @module tollgate/ai-sdk
 */
export type {
  ModelCall,
  ModelCallParams,
  ModelCharge,
  ModelCost,
  ModelLimiter,
  ModelRateLimitOptions,
  OutputEstimator,
  TokenEstimate,
  TokenUsage,
  UnreportedUsage,
} from './options.js'
export { type ModelMiddleware, rateLimit } from './rate-limit.js'
