/** The limits of tools, without the SDK: keys, refusals, permits, failures and options. */
import { concurrency, fixedWindow, gcra, RateLimiter, slidingCounter, TollgateError } from '../../ts/index.js'
import { limitTools } from '../../ts/mcp/index.js'
import { anything, failureOf } from '../failure.js'
import { warningsOf } from '../middleware/warnings.js'
import { answer, contextOf, FakeServer, setUp, statusOf } from './fake-sdk.js'

const perHour = (limit: number, more: object = {}) => fixedWindow({ limit, window: '1h', ...more })

/** A limiter that cannot decide. */
const failing = (error: Error) => ({
  policies: { default: perHour(1) },
  peek: async () => {},
  refund: async () => {},
  take: async () => {
    throw error
  },
})

const unavailable = new TollgateError('STORE_UNAVAILABLE', 'the store is down')

describe('a call', () => {
  test('runs with the context of the SDK, and is charged before', async () => {
    const seen: unknown[] = []
    const { call, limiter } = setUp(perHour(2), async (_, context) => {
      seen.push(context, (await limiter.peek('sub:ann')).used)
      return answer()
    })
    const context = contextOf('ann')
    expect(await call(context)).toEqual(answer())
    expect(seen).toEqual([context, 1])
    expect(seen[0]).toBe(context)
  })

  test('is charged to the key, the cost and the tier of the options', async () => {
    const calls: unknown[] = []
    const { call, limiter } = setUp(perHour(10), undefined, {
      key: ({ tool, principal, authInfo }: { [name: string]: unknown }) => {
        calls.push(authInfo)
        return `${tool} ${principal}`
      },
      cost: ({ arguments: { n } }: { arguments: { n: number } }) => n,
    })
    await call(contextOf('ann'), 'search', { n: 3 })
    await call(contextOf(), 'read', { n: 4 })
    expect((await limiter.peek('search sub:ann')).used).toBe(3)
    expect((await limiter.peek('read undefined')).used).toBe(4)
    expect(calls).toEqual([{ clientId: 'agent', scopes: [], extra: { sub: 'ann' } }, undefined])
  })

  test('counts the client if the token has no subject', async () => {
    const { call, limiter } = setUp(perHour(10))
    for (const extra of [{ sub: '' }, { sub: 5 }, undefined]) {
      await call({ ...contextOf(), http: { authInfo: { clientId: 'agent', extra } } })
    }
    expect((await limiter.peek('client:agent')).used).toBe(3)
  })

  test('does not start when it was cancelled before, or while the limiter decided', async () => {
    let runs = 0
    const { call, limiter } = setUp(concurrency({ limit: 1 }), () => ++runs)
    const controller = new AbortController()
    const running = call(contextOf('ann', controller.signal))
    controller.abort()
    await expect(running).rejects.toThrow('Client Closed Request')
    await expect(call(contextOf('ann', AbortSignal.abort()))).rejects.toThrow('Client Closed Request')
    expect(runs).toBe(0)
    expect((await limiter.peek('sub:ann')).used).toBe(0)
  })

  test('of another method is not limited, and one of a fallback is', async () => {
    const server = new FakeServer()
    limitTools({ limiter: new RateLimiter(perHour(1)) })(server)
    expect(server.fallbackRequestHandler).toBeUndefined()
    server.setRequestHandler('tools/list', () => 'list')
    server.fallbackRequestHandler = (request) => (request as { readonly method: string }).method
    const call = (method: string) => server.call(method, { name: 'search' }, contextOf('ann'))
    expect(await call('tools/list')).toBe('list')
    expect(await call('prompts/get')).toBe('prompts/get')
    expect(await call('tools/call')).toBe('tools/call')
    expect(await call('tools/call')).toMatchObject({ isError: true })
    server.fallbackRequestHandler = undefined
    expect(await call('prompts/get')).toBeUndefined()
  })
})

describe('a refusal', () => {
  test.each<[string, string, number | null, object]>([
    ['its rate limit is reached. Call it again in 2 s, not earlier.', 'refused', 1_500, { policies: 1 }],
    ['its caller is blocked for a time. Call it again in 60 s, not earlier.', 'blocked', 60_000, { block: '1m' }],
    [
      'this call costs more than its limit can ever allow. Do not call it again with the same arguments.',
      'impossible',
      null,
      { cost: 5 },
    ],
  ])('tells the model: %s', async (words, status, retryAfterMs, { block, cost }: { block?: string; cost?: number }) => {
    const { call, limiter } = setUp(gcra({ limit: 1, period: '1500ms' }), undefined, { cost })
    if (block !== undefined) {
      await limiter.block('sub:ann', anything(block))
    } else if (cost === undefined) {
      await call()
    }
    expect(await call()).toEqual({
      content: [{ type: 'text', text: `The tool was not run: ${words}` }],
      isError: true,
      _meta: { 'tollgate/refusal': { status, retryAfterMs, policy: 'default' } },
    })
  })

  test('has the text of the options, and is reported', async () => {
    const refused: unknown[] = []
    const message = ({ tool }: { tool: string }, { retryAfterMs }: { retryAfterMs: number }) =>
      `${tool}: ${retryAfterMs}`
    const onRefused = ({ tool }: { tool: string }) => refused.push(tool)
    const { call } = setUp(perHour(1), undefined, { message, onRefused })
    await call()
    expect((await call()).content[0]?.text).toBe('search: 3600000')
    expect(refused).toEqual(['search'])
  })

  test('is one of the store if that is down', async () => {
    const warnings = await warningsOf(async () => {
      const { call } = setUp(failing(unavailable))
      expect(await call()).toEqual({
        content: [{ type: 'text', text: 'The tool was not run: the service is unavailable. Call it again later.' }],
        isError: true,
        _meta: { 'tollgate/refusal': { status: 'unavailable', retryAfterMs: null } },
      })
    })
    expect(warnings.map(({ code }) => code)).toEqual(['TOLLGATE_NO_DECISION'])
    expect(warnings[0]?.message).toMatch(/^tollgate\/mcp: a request was refused: the store is down\n/)
  })

  test('without a store says when to try again', async () => {
    const { call } = setUp({
      ...failing(unavailable),
      take: async () => ({ allowed: false, status: 'refused', source: 'none', retryAfterMs: 1_000, policy: 'default' }),
    })
    expect((await call())._meta).toEqual({ 'tollgate/refusal': { status: 'unavailable', retryAfterMs: 1_000 } })
  })

  test('of a call without a principal says so to the operator, or what onInvalidInput returns', async () => {
    const warnings = await warningsOf(async () => {
      expect(statusOf(await setUp(perHour(1)).call(contextOf()))).toBe('invalid')
    })
    expect(warnings[0]?.message).toMatch(
      /^tollgate\/mcp: a request was refused: the request has no access token, and so no principal/,
    )
    const answered = setUp(perHour(1), undefined, { onInvalidInput: () => ({ message: 'Sign in.' }) })
    expect((await answered.call(contextOf())).content[0]?.text).toBe('Sign in.')
    const replaced = setUp(perHour(1), undefined, { onInvalidInput: () => ({ key: 'anyone' }) })
    expect(statusOf(await replaced.call(contextOf()))).toBe('ran')
  })
})

describe('an error', () => {
  test('of the store goes to onError, which answers or lets the tool run', async () => {
    const errors: unknown[] = []
    const passing = setUp(failing(unavailable), undefined, { onError: (error: unknown) => void errors.push(error) })
    expect(await passing.call()).toEqual(answer())
    expect(errors).toEqual([unavailable])
    const answering = setUp(failing(unavailable), undefined, { onError: () => answer('later') })
    expect(await answering.call()).toEqual(answer('later'))
  })

  test('of the program is thrown', async () => {
    const error = Object.assign(new Error('denied'), { code: -32_600 })
    const { call } = setUp(perHour(1), undefined, {
      key: () => {
        throw error
      },
    })
    await expect(call()).rejects.toBe(error)
  })

  test('of a tool is passed on, and gives the units back by refundWhen', async () => {
    const error = new Error('the tool failed')
    const { call, limiter } = setUp(
      perHour(9),
      ({ name }) => {
        if (name === 'throws') {
          throw error
        }
        return { ...answer(), isError: name === 'fails' }
      },
      { refundWhen: 'failed' },
    )
    await expect(call(undefined, 'throws')).rejects.toBe(error)
    await call(undefined, 'fails')
    await call(undefined, 'answers')
    expect((await limiter.peek('sub:ann')).used).toBe(1)
  })
})

describe('a permit', () => {
  const both = { atOnce: concurrency({ limit: 1 }), calls: perHour(10) }
  const usedBy = async ({ limiter }: { limiter: { peek(key: string): Promise<object> } }) => {
    const { policies } = (await limiter.peek('sub:ann')) as { policies: Record<string, { used: number }> }
    return [policies['atOnce']?.used, policies['calls']?.used]
  }

  test.each([
    ['answers', undefined, [0, 1]],
    ['fails', undefined, [0, 1]],
    ['throws', undefined, [0, 1]],
    ['answers', 'failed', [0, 1]],
    ['fails', 'failed', [0, 0]],
    ['throws', 'failed', [0, 0]],
    ['answers', 'successful', [0, 0]],
  ])('is released when the tool %s; refundWhen: %s', async (how, refundWhen, used) => {
    const tested = setUp(
      both,
      async () => {
        expect(await usedBy(tested)).toEqual([1, 1])
        if (how === 'throws') {
          throw new Error('the tool failed')
        }
        return { ...answer(), isError: how === 'fails' }
      },
      { refundWhen },
    )
    await tested.call().catch(() => {})
    expect(await usedBy(tested)).toEqual(used)
  })

  test('is waited for by delay; units of other limits, too', async () => {
    const ends: (() => void)[] = []
    const policies = { atOnce: concurrency({ limit: 1 }), calls: perHour(2) }
    const { call, clock } = setUp(policies, () => new Promise((resolve) => ends.push(() => resolve(answer()))), {
      delay: '30s',
    })
    const first = call()
    const second = call()
    await clock.advance('1s')
    expect(ends).toHaveLength(1)
    ends[0]?.()
    expect(await first).toEqual(answer())
    await clock.advance('1s')
    expect(ends).toHaveLength(2)
    ends[1]?.()
    expect(await second).toEqual(answer())
    const third = call()
    await clock.advance('30s')
    expect(statusOf(await third)).toBe('refused')
  })

  test('is waited for until the client cancels the call', async () => {
    const { call, limiter, clock } = setUp(concurrency({ limit: 1 }), () => new Promise(() => {}), { delay: '30s' })
    void call()
    const controller = new AbortController()
    const waiting = call(contextOf('ann', controller.signal))
    await clock.advance('1s')
    controller.abort()
    await expect(waiting).rejects.toThrow('Client Closed Request')
    await limiter.close()
  })

  test.each([
    ['2', (signal: AbortSignal) => ({ ...contextOf('ann'), mcpReq: { signal, id: 7 } })],
    ['1', (signal: AbortSignal) => ({ signal, authInfo: { clientId: 'agent', extra: { sub: 'ann' } } })],
  ])('that is lost aborts the signal of the tool, as the client does: version %s', async (_, contextWith) => {
    const signals: AbortSignal[] = []
    const { call, limiter } = setUp(concurrency({ limit: 2 }), (_, context) => {
      const { mcpReq, signal = mcpReq?.signal } = context as { mcpReq?: { signal: AbortSignal }; signal?: AbortSignal }
      signals.push(signal as AbortSignal)
      return new Promise((resolve) => signal?.addEventListener('abort', () => resolve(answer())))
    })
    const controller = new AbortController()
    const calls = [call(contextWith(controller.signal)), call(contextWith(new AbortController().signal))]
    while (signals.length < 2) {
      await new Promise(setImmediate)
    }
    controller.abort(new Error('cancelled'))
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false])
    // A closed limiter releases its permits.
    await limiter.close()
    expect(signals.map(({ reason }) => (reason as { code?: string }).code)).toEqual([undefined, 'PERMIT_LOST'])
    await Promise.all(calls)
  })
})

describe('options', () => {
  test('observe lets all calls run', async () => {
    const refused: unknown[] = []
    const options = { observe: true, onRefused: () => refused.push(1) }
    const { call } = setUp({ atOnce: concurrency({ limit: 1 }), calls: perHour(1) }, undefined, options)
    expect([statusOf(await call()), statusOf(await call())]).toEqual(['ran', 'ran'])
    expect(refused).toHaveLength(1)
  })

  test('that are wrong', () => {
    const limiter = new RateLimiter(perHour(1))
    const parted = new RateLimiter(perHour(1, { per: 'team' }))
    const estimated = new RateLimiter({ a: concurrency({ limit: 1 }), b: slidingCounter({ limit: 1, window: '1s' }) })
    const messageOf = (options: unknown) => failureOf(() => limitTools(anything(options))).message
    expect(messageOf(undefined)).toContain('limitTools')
    expect(messageOf({})).toContain('limiter must be a RateLimiter')
    expect(messageOf(limiter)).toContain('limitTools({ limiter })')
    expect(messageOf({ limiter, statusCode: 429 })).toContain('statusCode cannot be given')
    expect(messageOf({ limiter, requestProperty: 'a' })).toContain('requestProperty cannot be given')
    expect(messageOf({ limiter, tool: 'a' })).toContain('has no option "tool"')
    expect(messageOf({ limiter: parted })).toContain('key must be given: its part team')
    expect(messageOf({ limiter, delay: '1s' })).toContain('delay needs a limiter whose policies are gcra()')
    expect(messageOf({ limiter: estimated, refundWhen: 'failed' })).toContain('limitTools: refundWhen cannot be used')
    for (const server of [undefined, {}, { server: {} }]) {
      expect(failureOf(() => limitTools({ limiter })(anything(server))).message).toContain('must be an McpServer')
    }
    const limited = limitTools({ limiter })(new FakeServer())
    expect(failureOf(() => limited.setRequestHandler(anything({}), () => {})).message).toContain('cannot be read')
  })

  test('warn of a limiter that counts a call twice', async () => {
    const limiter = new RateLimiter(perHour(5))
    const server = new FakeServer()
    limitTools({ limiter })(server)
    limitTools({ limiter })(server)
    server.setRequestHandler('tools/call', () => answer())
    const warnings = await warningsOf(() => server.call('tools/call', { name: 'a' }, contextOf('ann')))
    expect(warnings.map(({ code }) => code)).toEqual(['TOLLGATE_COUNTED_TWICE'])
  })
})
