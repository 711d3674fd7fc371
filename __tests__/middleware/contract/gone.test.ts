/** Clients that disconnect before, during and after the decision, in each adapter. */
import type { Decision } from '../../../ts/index.js'
import { until } from '../../servers/until.js'
import type { Exchange } from '../frameworks.js'
import { pending } from '../requests.js'
import { warningsOf } from '../warnings.js'
import { type Behaviour, contract, endsOf, limiterOf, type Running, run } from './contract.js'

/** Whether the server knows that the client of a request has gone. */
const isNoticed = ({ request, response }: Exchange) => {
  const { stream } = response as { readonly stream?: { readonly destroyed: boolean } }
  return stream?.destroyed ?? request.socket.destroyed
}

/** A step of a request that waits. */
function gate() {
  const [entered, released] = [pending(), pending()]
  const wait = async () => {
    entered.resolve()
    await released.promise
  }
  return { entered: entered.promise, release: released.resolve, wait }
}

/** Sends a request, resets it in a step, and lets it continue when the server knows. */
async function resetIn(step: ReturnType<typeof gate>, { client, exchanges }: Running): Promise<void> {
  const known = exchanges.length
  const sent = client.send({ path: '/ok' })
  await step.entered
  sent.reset()
  await until('the server has noticed it', async () => isNoticed(exchanges[known] as Exchange), 30_000)
  step.release()
}

/** Waits until earlier requests have continued: a later one has its answer. */
const settled = async ({ client }: Running) => {
  expect((await client.get({ path: '/ok', headers: { 'x-user': 'last' } })).status).toBe(200)
}

const usedBy = async (limiter: ReturnType<typeof limiterOf>, key = 'ann') => (await limiter.peek(key)).used

/** A limiter of which each call waits after its decision. */
function waiting(limiter: ReturnType<typeof limiterOf>, steps: readonly ReturnType<typeof gate>[]) {
  const left = [...steps]
  const take = async (...args: Parameters<typeof limiter.take>): Promise<Decision<'default'>> => {
    const decision = await limiter.take(...args)
    await left.shift()?.wait()
    return decision
  }
  return { policies: limiter.policies, take, refund: limiter.refund.bind(limiter) }
}

const NO_ADDRESS = {
  fetch: 'it knows no address',
  tRPC: 'it knows no address',
  'GraphQL Yoga': 'it knows no address',
  'Apollo Server': 'it knows no address',
}

/** The client's connection is reset before its address is read. */
const withoutAddress = (reset: (exchange: Exchange) => void): Behaviour => ({
  except: NO_ADDRESS,
  test: async (adapter) => {
    const onInvalidInput = jest.fn()
    const onError = jest.fn()
    const limiter = limiterOf()
    const take = jest.fn(limiter.take.bind(limiter))
    const first = pending()
    const options = { key: adapter.addressKey, onInvalidInput, onError }
    const running = await run(
      adapter,
      { ...options, limiter: { policies: limiter.policies, take, refund: async () => 0 } },
      {
        onRequest: (exchange) => {
          if (running.exchanges.length === 1) {
            reset(exchange)
            first.resolve()
          }
        },
      },
    )
    const warnings = await warningsOf(async () => {
      const sent = running.client.send()
      await first.promise
      await new Promise((resolve) => setImmediate(resolve))
      sent.reset()
      const other = await run(adapter, { limiter })
      await settled(other)
    })
    expect([warnings, running.routed]).toEqual([[], []])
    expect([onInvalidInput, onError, take].map((fn) => fn.mock.calls.length)).toEqual([0, 0, 0])
  },
})

contract({
  'before the decision: not counted, and the route does not run': {
    test: async (adapter) => {
      const step = gate()
      const limiter = limiterOf()
      const { ends, refundWhen } = endsOf()
      let calls = 0
      const key = async (...args: unknown[]) => {
        if (calls++ === 0) {
          await step.wait()
          throw new TypeError('the request has no body')
        }
        return adapter.header(args, 'x-user') ?? 'ann'
      }
      const running = await run(adapter, { limiter, key, refundWhen })
      const warnings = await warningsOf(async () => {
        await resetIn(step, running)
        await settled(running)
      })
      expect([warnings, running.routed, await usedBy(limiter)]).toEqual([[], ['/ok'], 0])
      await until('one request has ended', async () => ends.length === 1, 30_000)
    },
  },

  'during the decision: the route does not run, also after a refusal, and units stay charged': {
    test: async (adapter) => {
      const steps = [gate(), gate(), gate()] as const
      const limiter = limiterOf(2)
      const { ends, refundWhen } = endsOf(({ aborted }) => aborted && ends.length === 2)
      const refused = jest.fn()
      const running = await run(adapter, { limiter: waiting(limiter, steps), refundWhen, onRefused: refused })
      for (const [index, step] of steps.entries()) {
        await resetIn(step, running)
        await until('the request has ended', async () => ends.length > index, 30_000)
      }
      await settled(running)
      // The function refunds the second one, and the third one fits.
      await until('all have ended', async () => ends.length === 4, 30_000)
      expect(ends.slice(0, 3)).toEqual(Array(3).fill({ aborted: true, status: undefined }))
      expect([running.routed, await usedBy(limiter), refused.mock.calls.length]).toEqual([['/ok'], 2, 0])
      const last = gate()
      const other = await run(adapter, { limiter: waiting(limiter, [last]), onRefused: refused })
      await resetIn(last, other)
      await settled(other)
      expect([other.routed, await usedBy(limiter), refused.mock.calls.length]).toEqual([['/ok'], 2, 1])
    },
  },

  'in the route: charged, whatever refundWhen names, unless a function refunds it': {
    test: async (adapter) => {
      for (const [refundWhen, used] of [
        ['failed', 1],
        ['successful', 1],
        [endsOf(({ aborted }) => aborted).refundWhen, 0],
      ] as const) {
        const limiter = limiterOf()
        const running = await run(adapter, { limiter, refundWhen })
        const sent = running.client.send({ path: '/slow' })
        await running.entered
        expect(await usedBy(limiter)).toBe(1)
        sent.reset()
        await until('the server has noticed it', async () => isNoticed(running.exchanges[0] as Exchange), 30_000)
        running.release()
        await settled(running)
        await until('the units are right', async () => (await usedBy(limiter)) === used, 30_000)
      }
    },
  },

  'in the route: the end of a request without an answer has no status': {
    test: async (adapter) => {
      const { ends, refundWhen } = endsOf()
      const running = await run(adapter, { limiter: limiterOf(), refundWhen })
      const sent = running.client.send({ path: '/slow' })
      await running.entered
      sent.reset()
      await until('the server has noticed it', async () => isNoticed(running.exchanges[0] as Exchange), 30_000)
      running.release()
      await until('it has ended', async () => ends.length === 1, 30_000)
      expect(ends).toEqual([{ aborted: true, status: undefined }])
    },
  },

  'a HEAD request that is reset has no answer either': {
    except: {
      Hono: 'it runs a HEAD request as one of GET',
      tRPC: 'it has no HEAD requests',
      'GraphQL Yoga': 'it has no HEAD requests',
      'Apollo Server': 'it has no HEAD requests',
    },
    test: async (adapter) => {
      const { ends, refundWhen } = endsOf()
      const running = await run(adapter, { limiter: limiterOf(), refundWhen })
      expect((await running.client.get({ method: 'HEAD', path: '/ok' })).status).toBe(200)
      const sent = running.client.send({ method: 'HEAD', path: '/slow' })
      await running.entered
      sent.reset()
      await until('both have ended', async () => ends.length === 2, 30_000)
      running.release()
      expect(ends).toEqual([
        { aborted: false, status: 200 },
        { aborted: true, status: undefined },
      ])
    },
  },

  'in shadow mode the route runs, as without the middleware': {
    test: async (adapter) => {
      const step = gate()
      const running = await run(adapter, { limiter: waiting(limiterOf(), [step]), observe: true })
      await resetIn(step, running)
      await until('it has reached the route', async () => running.routed.length === 1, 30_000)
    },
  },

  'a connection that was reset before its address is read is no bad request': withoutAddress(({ request }) => {
    const { stream } = request as { readonly stream?: { close(code: number): void; destroy(): void } }
    ;(stream ?? request.socket).destroy()
  }),

  'a connection that has lost its address, before Node knows it, is no bad request': withoutAddress(({ request }) => {
    const { session } = (request as { readonly stream?: { readonly session: object } }).stream ?? {}
    // `session.socket` is a proxy, which cannot be changed.
    const isSocket = ({ description }: symbol) => description === 'socket'
    const [name] = Object.getOwnPropertySymbols(session ?? {}).filter(isSocket)
    const socket = name === undefined ? request.socket : (session as { readonly [name: symbol]: object })[name]
    Object.defineProperty(socket, 'remoteAddress', { value: undefined })
  }),
})
