/** Pipelined requests whose connection is reset, in each adapter. Those behind the first one have no socket yet. */
import { gcra, MemoryStore, RateLimiter } from '../../../ts/index.js'
import { TestClock } from '../../../ts/testing/index.js'
import { until } from '../../servers/until.js'
import { pending } from '../requests.js'
import { warningsOf } from '../warnings.js'
import { contract, endsOf, limiterOf, ONLY_HTTP_1, type Running, run } from './contract.js'

const pipelined = (path: string) => Array(4).fill({ path })

/** Resets a connection, and resolves when the server knows. */
async function reset(resetNow: () => void, { exchanges }: Running): Promise<void> {
  resetNow()
  await until('the server has noticed it', async () => exchanges[0]?.request.socket.destroyed, 30_000)
}

contract({
  'before the decision: none is counted, and none reaches the route': {
    except: ONLY_HTTP_1,
    test: async (adapter) => {
      const limiter = limiterOf()
      const released = pending()
      let waiting = 0
      const key = async (...args: unknown[]) => {
        if (adapter.header(args, 'x-user') === undefined) {
          waiting++
          await released.promise
        }
        return adapter.header(args, 'x-user') ?? adapter.addressKey?.(...(args as [never])) ?? 'ann'
      }
      const running = await run(adapter, { limiter, key })
      const warnings = await warningsOf(async () => {
        const resetNow = running.client.sendPipeline(pipelined('/ok'))
        await until('all have arrived', async () => waiting === 4, 30_000)
        await reset(resetNow, running)
        released.resolve()
        expect((await running.client.get({ path: '/ok', headers: { 'x-user': 'last' } })).status).toBe(200)
      })
      expect([warnings, running.routed, (await limiter.peek('ann')).used]).toEqual([[], ['/ok'], 0])
    },
  },

  'in the route: each is charged, and has no status': {
    except: ONLY_HTTP_1,
    test: async (adapter) => {
      const { ends, refundWhen } = endsOf()
      const limiter = limiterOf()
      const running = await run(adapter, { limiter, refundWhen })
      const resetNow = running.client.sendPipeline(pipelined('/slow'))
      await until('all are in the route', async () => running.routed.length === 4, 30_000)
      await reset(resetNow, running)
      running.release()
      await until('all have ended', async () => ends.length === 4, 30_000)
      expect(ends).toEqual(Array(4).fill({ aborted: true, status: undefined }))
      expect((await limiter.peek('ann')).used).toBe(4)
    },
  },

  'delay: each gives up its turn': {
    except: ONLY_HTTP_1,
    test: async (adapter) => {
      const clock = new TestClock()
      const limiter = new RateLimiter(gcra({ limit: 1, period: '1s', burst: 1 }), { store: new MemoryStore({ clock }) })
      const running = await run(adapter, { limiter, delay: '1m' })
      await limiter.take('ann')
      const resetNow = running.client.sendPipeline(pipelined('/ok'))
      await until('all wait', async () => clock.timerCount === 4, 30_000)
      await reset(resetNow, running)
      await until('none waits', async () => clock.timerCount === 0, 30_000)
      expect(running.routed).toEqual([])
    },
  },
})
