// A server whose tools share limits in Redis with those of other processes. Prints its URL, and a line for each tool run.
import { concurrency, fixedWindow, limitTools, RateLimiter, RedisStore, serve, textResult } from './mcp.mjs'

const { version, redis, limit } = JSON.parse(process.argv[2])
const store = new RedisStore({ url: redis, commandTimeout: 30_000 })
const limiter = new RateLimiter(
  {
    calls: fixedWindow({ limit: 1_000_000, window: '1d', meter: 'calls' }),
    letters: fixedWindow({ limit, window: '1d', meter: 'letters' }),
    atOnce: concurrency({ limit: 10, meter: 'tools', defaultCost: 1, ttl: '10m' }),
  },
  { store, prefix: 'tools' },
)
const print = (line) => console.log(JSON.stringify(line))
const limited = limitTools({
  limiter,
  cost: ({ arguments: { text } }) => ({ letters: text.length }),
})
const server = await serve(version, limited, (mcp, z) => {
  const inputSchema = z.object({ text: z.string(), how: z.enum(['answer', 'fail', 'wait', 'hang']) })
  mcp.registerTool('count', { inputSchema }, async ({ text, how }, { mcpReq }) => {
    print({ ran: text.length, how })
    if (how === 'fail') throw new Error('it failed')
    if (how === 'hang') await new Promise(() => {})
    if (how === 'wait') {
      const aborted = new Promise((resolve) => mcpReq.signal.addEventListener('abort', resolve))
      const params = { progressToken: mcpReq._meta.progressToken, progress: 1 }
      await mcpReq.notify({ method: 'notifications/progress', params })
      await aborted
    }
    return textResult(text)
  })
})
print({ url: server.url })
