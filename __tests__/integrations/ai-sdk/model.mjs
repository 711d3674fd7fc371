// Models of the provider of server.ts, for both versions of the AI SDK.
import { createRequire } from 'node:module'
import { createOpenAI } from '@ai-sdk/openai'

const require = createRequire(import.meta.url)

export const { MemoryStore, RateLimiter, RedisStore, fixedWindow, gcra } = require('../../../dist/index.js')
export const { rateLimit } = require('../../../dist/ai-sdk/index.js')
export const { TestClock } = require('../../../dist/testing/index.js')

/** @param version - `'ai'` or `'ai-6'`: ai 6 knows models of the specification v3, which has the same members. */
export function modelOf(version, url) {
  const model = createOpenAI({ baseURL: url, apiKey: 'none' }).chat('large')
  return version === 'ai' ? model : Object.create(model, { specificationVersion: { value: 'v3' } })
}
