/** The middleware for the AI SDK, without the SDK: charges, refusals, waits, ends of streams, pauses and failures. */
import { type ModelCall, type ModelCharge, rateLimit, type TokenUsage } from '../../ts/ai-sdk/index.js'
import { UsageEstimator } from '../../ts/estimate/index.js'
import {
  calendarWindow,
  concurrency,
  fixedWindow,
  gcra,
  RateLimiter,
  slidingCounter,
  TollgateError,
} from '../../ts/index.js'
import { anything, failureOf } from '../failure.js'
import { warningsOf } from '../middleware/warnings.js'
import { all, answer, finish, providerError, setUp, text, usageOf } from './fake-model.js'

const tokens = fixedWindow({ limit: 1_000, window: '1h', meter: 'tokens', maxOwed: 5_000 })

describe('a call', () => {
  test('reserves its estimate, and charges the usage', async () => {
    const { generate, usedBy } = setUp({ tokens, calls: fixedWindow({ limit: 10, window: '1h' }) })
    const result = await generate(async () => {
      expect(await usedBy()).toEqual({ tokens: 100, calls: 1 })
      return answer(usageOf(12, 30))
    })
    expect(await usedBy()).toEqual({ tokens: 42, calls: 1 })
    expect(result.providerMetadata.tollgate).toEqual({
      isReported: true,
      estimated: { tokens: 100, calls: 1 },
      settled: true,
      refunded: { tokens: 58, calls: 0 },
      charged: { tokens: 0, calls: 0 },
      owed: { tokens: 0, calls: 0 },
      shortfall: { tokens: 0, calls: 0 },
      late: false,
    })
  })

  test('owes what does not fit, and the next one waits until it is paid', async () => {
    const { generate, clock, usedBy } = setUp({ tokens })
    const { providerMetadata } = await generate(() => answer(usageOf(10, 1_690)))
    expect(providerMetadata.tollgate).toMatchObject({ charged: { tokens: 1_600 }, owed: { tokens: 700 } })
    await expect(generate(() => answer(usageOf(1, 1)))).rejects.toMatchObject({ statusCode: 429 })
    await clock.advance('1h')
    await generate(() => answer(usageOf(1, 1)))
    expect(await usedBy()).toEqual({ tokens: 702 })
  })

  test('counts the meters that have a known name, and money by costOf', async () => {
    const names = ['requests', 'inputTokens', 'outputTokens', 'cachedInputTokens', 'cacheWriteTokens', 'microCents']
    const limits = names.map((meter) => [meter, fixedWindow({ limit: 1_000_000, window: '1h', meter })] as const)
    const costOf = ({ inputTokens, outputTokens, cachedInputTokens }: TokenUsage) => ({
      microCents: 3 * (inputTokens - cachedInputTokens) + 15 * outputTokens,
    })
    const { generate, usedBy } = setUp(Object.fromEntries(limits), { costOf })
    await generate(async () => {
      expect(await usedBy()).toMatchObject({ requests: 1, inputTokens: 10, outputTokens: 90, microCents: 1_380 })
      return answer(usageOf(1_000, 20, { cacheRead: 800, cacheWrite: 50 }))
    })
    expect(await usedBy()).toEqual({
      requests: 1,
      inputTokens: 1_000,
      outputTokens: 20,
      cachedInputTokens: 800,
      cacheWriteTokens: 50,
      microCents: 900,
    })
  })

  test('counts 1 under a policy without a meter, or what costOf tells', async () => {
    const plain = fixedWindow({ limit: 1_000, window: '1h' })
    const calls = setUp(plain)
    await calls.generate(() => answer(usageOf(10, 20)))
    expect(await calls.usedBy()).toEqual({ default: 1 })
    const costOf = (used: TokenUsage) => used.inputTokens + used.outputTokens
    const counted = setUp(plain, { costOf })
    await counted.generate(() => answer(usageOf(10, 20)))
    expect(await counted.usedBy()).toEqual({ default: 30 })
  })

  test('is charged its estimate if the provider reports no usage, or reports nonsense', async () => {
    const { generate, usedBy } = setUp({ tokens })
    await generate(() => answer(undefined))
    expect(await usedBy()).toEqual({ tokens: 100 })
    await generate(() => answer(usageOf(Number.NaN, -1)))
    expect(await usedBy()).toEqual({ tokens: 200 })
    await generate(() => answer(usageOf(undefined, 7)))
    expect(await usedBy()).toEqual({ tokens: 217 })
    await generate(() => answer(anything({ inputTokens: null, outputTokens: null })))
    expect(await usedBy()).toEqual({ tokens: 317 })
  })

  test('has its key and tier from the call, or from functions', async () => {
    const { generate, usedBy } = setUp({ tokens }, { key: async ({ modelId }: ModelCall) => `of ${modelId}` })
    await generate(() => answer(usageOf(1, 1)))
    expect(await usedBy('of model:large')).toEqual({ tokens: 2 })
    await generate(() => answer(usageOf(1, 2)), { providerOptions: { tollgate: { key: 'b' } } })
    expect(await usedBy('b')).toEqual({ tokens: 3 })
    const misspelt = generate(() => answer({}), { providerOptions: { tollgate: { kee: 'b' } } })
    await expect(misspelt).rejects.toMatchObject({ code: 'INVALID_OPTION', message: expect.stringContaining('"kee"') })
    const keyless = setUp({ tokens }, { key: undefined })
    await expect(keyless.generate(() => answer({}))).rejects.toMatchObject({ code: 'INVALID_KEY' })
  })
})

describe('the estimate', () => {
  test('is a token for three bytes of the prompt and the tools, 1,000 for a file, and maxOutputTokens', async () => {
    const { generate, usedBy } = setUp(
      {
        input: fixedWindow({ limit: 10_000, window: '1h', meter: 'inputTokens' }),
        output: fixedWindow({ limit: 10_000, window: '1h', meter: 'outputTokens' }),
      },
      { estimate: undefined },
    )
    const used: unknown[] = []
    const call = (params: object) =>
      generate(async () => {
        used.push(await usedBy())
        return answer(usageOf(0, 0))
      }, params)
    await call({ prompt: ['x'.repeat(300)] })
    await call({ prompt: ['語'.repeat(300)], maxOutputTokens: 70 })
    await call({ prompt: [{ type: 'file', mediaType: 'image/png', data: new Uint8Array(100_000) }] })
    await call({ prompt: ['x'.repeat(30)], tools: ['y'.repeat(60)] })
    expect(used).toEqual([
      { input: 100, output: 1_000 },
      { input: 300, output: 70 },
      { input: 1_000, output: 1_000 },
      { input: 30, output: 1_000 },
    ])
  })

  test('is that of a UsageEstimator, which learns from the answers that ended by themselves', async () => {
    const estimate = new UsageEstimator({ minSamples: 1 })
    const { generate, stream, usedBy } = setUp({ tokens: { ...tokens, meter: 'outputTokens' } }, { estimate })
    const params = { maxOutputTokens: 400 }
    await generate(async () => {
      expect(await usedBy()).toEqual({ tokens: 400 })
      return answer(usageOf(10, 25))
    }, params)
    await (await stream([text('abc')], params)).cancel()
    expect(estimate.estimate('model:large', 400)).toBe(25)
  })
})

describe('a refused call', () => {
  test('is not sent, and has an APICallError with the time in its headers', async () => {
    const { generate, limiter, usedBy } = setUp({ tokens: gcra({ limit: 1_000, period: '10s', meter: 'tokens' }) })
    await limiter.take('a', anything({ cost: { tokens: 1_000 } }))
    const send = jest.fn()
    const error = await generate(send).catch((cause) => cause)
    expect(error).toMatchObject({
      name: 'AI_APICallError',
      statusCode: 429,
      isRetryable: true,
      responseHeaders: { 'retry-after-ms': '1000', 'retry-after': '1' },
      cause: { status: 'refused', policy: 'tokens' },
    })
    expect(error[Symbol.for('vercel.ai.error.AI_APICallError')]).toBe(true)
    expect(send).not.toHaveBeenCalled()
    expect(await usedBy()).toEqual({ tokens: 1_000 })
  })

  test('is not retried if it fits only after a minute, which the SDK would not wait for, or never', async () => {
    const late = setUp({ tokens })
    await late.limiter.take('a', anything({ cost: { tokens: 1_000 } }))
    await expect(late.generate(jest.fn())).rejects.toMatchObject({
      statusCode: 429,
      isRetryable: false,
      responseHeaders: { 'retry-after': '3600' },
    })
    const never = setUp({ tokens: { ...tokens, limit: 99 } })
    await expect(never.generate(jest.fn())).rejects.toMatchObject({
      statusCode: 413,
      isRetryable: false,
      cause: { status: 'impossible' },
    })
  })

  test('waits for maxWait at most, and until its signal is aborted', async () => {
    const { generate, limiter, clock } = setUp(
      { tokens: gcra({ limit: 1_000, period: '10s', meter: 'tokens' }) },
      { maxWait: '1s' },
    )
    await limiter.take('a', anything({ cost: { tokens: 1_000 } }))
    const waiting = generate(() => answer(usageOf(10, 90)))
    await clock.advance('1s')
    await waiting
    const controller = new AbortController()
    const aborted = generate(jest.fn(), { abortSignal: controller.signal })
    const reason = new Error('enough')
    controller.abort(reason)
    await expect(aborted).rejects.toBe(reason)
    await limiter.take('a', anything({ cost: { tokens: 0 } })).catch(() => {})
    await limiter.block('a', '2s')
    await expect(generate(jest.fn())).rejects.toMatchObject({ statusCode: 429, cause: { status: 'blocked' } })
    expect(clock.timerCount).toBe(0)
  })

  test('waits for a permit under concurrency, which the end of another call releases', async () => {
    const { generate, clock } = setUp(
      { tokens, atOnce: concurrency({ limit: 1, ttl: '10m', meter: 'answers', defaultCost: 1 }) },
      { maxWait: '1m' },
    )
    let end: (usage: unknown) => void = () => {}
    const first = generate(() => new Promise((resolve) => (end = resolve)))
    const second = generate(() => answer(usageOf(1, 1)))
    await clock.advance('2s')
    end(answer(usageOf(1, 1)))
    await first
    await clock.advance('1s')
    await second
    expect(clock.timerCount).toBe(0)
  })
})

describe('a stream', () => {
  test('charges the usage before its part finish, which tells it', async () => {
    const { stream, usedBy } = setUp({ tokens })
    const parts: string[] = []
    for await (const part of await stream([text('Hello'), finish(usageOf(20, 5)), { type: 'late' }])) {
      parts.push(part.type)
      if (part.type === 'finish') {
        expect(part).toMatchObject({ providerMetadata: { tollgate: { settled: true, refunded: { tokens: 75 } } } })
        expect(await usedBy()).toEqual({ tokens: 25 })
      }
    }
    expect(parts).toEqual(['text-delta', 'finish', 'late'])
  })

  test.each([
    ['estimate', 100, 210],
    ['streamed', 11, 210],
    ['nothing', 0, 0],
  ] as const)('that its consumer cancels is charged by onAbort: %s', async (onAbort, short, long) => {
    const charges: ModelCharge[] = []
    const { stream, usedBy, clock } = setUp(
      { tokens },
      { onAbort, onCharged: (charge: ModelCharge) => charges.push(charge) },
    )
    for (const [length, used] of [
      [3, short],
      [600, short + long],
    ] as const) {
      const reader = (await stream([text('x'.repeat(length)), finish(usageOf(5, 5))])).getReader()
      await reader.read()
      await reader.cancel()
      await reader.cancel()
      expect(await usedBy()).toEqual({ tokens: used })
    }
    expect(charges).toMatchObject([
      { outcome: 'aborted', isReported: false },
      { outcome: 'aborted', isReported: false },
    ])
    expect(clock.timerCount).toBe(0)
  })

  test('whose signal is aborted is settled, also if nobody reads it', async () => {
    const { stream, usedBy, clock } = setUp({ tokens }, { onAbort: 'streamed' })
    const controller = new AbortController()
    await stream([text('Hello')], { abortSignal: controller.signal })
    controller.abort()
    await clock.advance(1)
    expect(await usedBy()).toEqual({ tokens: 10 })
    expect(clock.timerCount).toBe(0)
  })

  test('that fails before any output is not charged, and one that fails later is', async () => {
    const { stream, usedBy } = setUp({ tokens }, { onAbort: 'streamed' })
    async function* failing(...parts: ReturnType<typeof text>[]) {
      yield* parts
      throw new Error('the connection broke')
    }
    await expect(all(await stream(failing()))).rejects.toThrow('the connection broke')
    expect(await usedBy()).toEqual({ tokens: 0 })
    await all(await stream([{ type: 'error', error: new Error('busy') }, finish(usageOf(undefined, undefined))]))
    expect(await usedBy()).toEqual({ tokens: 0 })
    await all(await stream([{ type: 'stream-start' }]))
    expect(await usedBy()).toEqual({ tokens: 0 })
    await expect(all(await stream(failing(text('x'.repeat(30)))))).rejects.toThrow('the connection broke')
    expect(await usedBy()).toEqual({ tokens: 20 })
  })

  test('counts reasoning and the input of tools once, as they are streamed or at their end', async () => {
    const { stream, usedBy } = setUp({ tokens }, { onAbort: 'streamed' })
    const parts = [
      { type: 'reasoning-delta', id: 'r', delta: 'x'.repeat(30) },
      { type: 'tool-input-delta', id: 't', delta: 'x'.repeat(30) },
      { type: 'tool-call', toolCallId: 't', input: 'x'.repeat(30) },
      { type: 'tool-call', toolCallId: 'u', input: 'x'.repeat(30) },
    ]
    const reader = (await stream(parts)).getReader()
    for (const _ of parts) {
      await reader.read()
    }
    await reader.cancel()
    expect(await usedBy()).toEqual({ tokens: 40 })
  })

  test('keeps its reservation for as long as it is read', async () => {
    const { stream, usedBy, clock } = setUp({ tokens }, { ttl: '1m' })
    async function* slow() {
      yield text('a')
      await clock.sleep('20m')
      yield finish(usageOf(10, 20))
    }
    const reading = all(await stream(slow()))
    await clock.advance('20m')
    expect((await reading).at(-1)).toMatchObject({ providerMetadata: { tollgate: { late: false } } })
    expect(await usedBy()).toEqual({ tokens: 30 })
    expect(clock.timerCount).toBe(0)
  })

  test('that nobody reads lets its reservation end, and later charges only what is missing', async () => {
    const { stream, usedBy, clock } = setUp({ tokens }, { ttl: '1m' })
    const short = await stream([text('a'), finish(usageOf(10, 20))])
    const long = await stream([text('a'), finish(usageOf(10, 120))])
    await clock.advance('10m')
    expect(clock.timerCount).toBe(0)
    expect((await all(short)).at(-1)).toMatchObject({ providerMetadata: { tollgate: { late: true } } })
    await all(long)
    expect(await usedBy()).toEqual({ tokens: 230 })
  })
})

describe('a provider that refuses', () => {
  test.each([
    [429, { 'retry-after': '7' }, 7_000],
    [429, { 'retry-after-ms': '1500' }, 1_500],
    [503, { 'retry-after': '3' }, 3_000],
    [429, {}, 1_000],
  ] as const)('with %i and %j pauses the key, and is charged nothing', async (status, headers, pauseMs) => {
    const { generate, stream, limiter, usedBy } = setUp({ tokens })
    const error = providerError(status, headers)
    await expect(generate(() => Promise.reject(error))).rejects.toBe(error)
    expect(await usedBy()).toEqual({ tokens: 0 })
    const peeked = await limiter.peek('a', anything({ cost: { tokens: 1 } }))
    expect(peeked).toMatchObject({ status: 'blocked', retryAfterMs: pauseMs })
    await expect(stream([])).rejects.toMatchObject({ responseHeaders: { 'retry-after-ms': String(pauseMs) } })
  })

  test.each([
    [503, {}, true],
    [500, { 'retry-after': '3' }, true],
    [429, { 'retry-after': '3' }, false],
  ] as const)('with %i and %j, and pause: %s, does not', async (status, headers, pause) => {
    const { generate, limiter } = setUp({ tokens }, { pause })
    await expect(generate(() => Promise.reject(providerError(status, headers)))).rejects.toThrow('from the provider')
    expect(await limiter.peek('a', anything({ cost: { tokens: 1 } }))).toMatchObject({ status: 'allowed' })
  })

  test('by an error whose members throw reaches the caller, and its units come back', async () => {
    const { generate, usedBy, clock } = setUp({ tokens })
    const name = () => {
      throw new Error('member')
    }
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    for (const error of [Object.defineProperty(new Error('x'), 'name', { get: name }), proxy]) {
      let caught: unknown
      await generate(() => Promise.reject(error)).catch((reason: unknown) => {
        caught = reason
      })
      expect(caught === error).toBe(true)
    }
    expect(await usedBy()).toEqual({ tokens: 0 })
    expect(clock.timerCount).toBe(0)
  })

  test('is not a limiter of another middleware, whose refusal gives all units back', async () => {
    const outer = setUp({ tokens }, { onError: 'estimate' })
    const inner = setUp({ tokens: gcra({ limit: 10, period: '1s', meter: 'tokens' }) })
    await expect(outer.generate(() => inner.generate(jest.fn()))).rejects.toMatchObject({ statusCode: 413 })
    const blocked = setUp({ tokens })
    await blocked.limiter.block('a', '9s')
    await expect(outer.generate(() => blocked.generate(jest.fn()))).rejects.toMatchObject({ statusCode: 429 })
    expect(await outer.usedBy()).toEqual({ tokens: 0 })
    expect(await outer.limiter.peek('a', anything({ cost: { tokens: 1 } }))).toMatchObject({ status: 'allowed' })
  })
})

describe('a failing store', () => {
  /** A middleware whose limiter has other methods. */
  function withLimiter(methods: object) {
    const charges: ModelCharge[] = []
    const limiter = new RateLimiter({ tokens })
    const { policies, tiers } = limiter
    const reserve = (...call: [string, never]) => limiter.reserve(...call)
    const own = { policies, tiers, reserve, block: down, ...methods }
    return {
      ...setUp({ tokens }, { limiter: anything(own), onCharged: (one: ModelCharge) => charges.push(one) }),
      charges,
    }
  }
  const down = () => Promise.reject(new TollgateError('STORE_UNAVAILABLE', 'the store is down'))

  test('sends no call, and lets the SDK not retry it', async () => {
    const { generate } = withLimiter({ reserve: down })
    const send = jest.fn()
    await expect(generate(send)).rejects.toMatchObject({
      name: 'AI_APICallError',
      statusCode: 503,
      isRetryable: false,
      cause: { code: 'STORE_UNAVAILABLE' },
    })
    expect(send).not.toHaveBeenCalled()
  })

  test('warns once of a pause that it did not store', async () => {
    const { generate } = withLimiter({})
    const warned = await warningsOf(async () => {
      for (let call = 0; call < 2; call++) {
        await expect(generate(() => Promise.reject(providerError(429)))).rejects.toThrow('from the provider')
      }
    })
    expect(warned.map(({ code }) => code)).toEqual(['TOLLGATE_PAUSE_NOT_STORED'])
  })

  test.each([
    ['again until it works', 2, []],
    ['five times more, with a warning', 9, ['TOLLGATE_USAGE_NOT_CHARGED']],
  ])('settles %s', async (_, failures, warnings) => {
    let sent = 0
    const limiter = new RateLimiter({ tokens })
    const reserve = async (...call: [string, never]) => {
      const reservation = await limiter.reserve(...call)
      const commit = (actual: never) =>
        ++sent <= failures ? down() : (reservation as { commit(actual: never): unknown }).commit(actual)
      return { ...reservation, units: { tokens: 100 }, commit, renew: async () => ({ renewed: true }) }
    }
    const { generate, clock, charges } = withLimiter({ reserve })
    const warned = await warningsOf(async () => {
      const { providerMetadata } = await generate(() => answer(usageOf(1, 1)))
      expect(providerMetadata.tollgate).toMatchObject({ settled: false })
      expect(charges).toEqual([])
      await clock.advance('1m')
    })
    expect(sent).toBe(Math.min(6, failures + 1))
    expect(charges).toMatchObject([{ outcome: 'finished', ...(failures < 6 && { settlement: { settled: true } }) }])
    expect(warned.map(({ code }) => code)).toEqual(warnings)
    expect(clock.timerCount).toBe(0)
  })

  test('keeps the estimate if costOf fails at the end, and the answer is not lost', async () => {
    const costOf = jest.fn().mockReturnValueOnce({}).mockReturnValueOnce({ tokens: 1.5 })
    const { generate, usedBy } = setUp({ tokens }, { costOf })
    const warned = await warningsOf(() => generate(() => answer(usageOf(1, 1))))
    expect(warned.map(({ code }) => code)).toEqual(['TOLLGATE_USAGE_NOT_CHARGED'])
    expect(await usedBy()).toEqual({ tokens: 100 })
  })

  test('refuses a call whose costOf returns no plain object', async () => {
    for (const cost of [new Map([['tokens', 500]]), Promise.resolve({ tokens: 500 })]) {
      const { generate, usedBy } = setUp({ tokens }, { costOf: () => cost })
      const failed = generate(() => answer(usageOf(1, 1)))
      await expect(failed).rejects.toMatchObject({
        code: 'INVALID_COST',
        message: expect.stringContaining('must be a plain object by meter'),
      })
      expect(await usedBy()).toEqual({ tokens: 0 })
    }
  })
})

describe('options', () => {
  const limiter = new RateLimiter({ tokens })
  test.each([
    [{ limiter, kee: 'a' }, 'rateLimit has no option "kee"; did you mean "key"?'],
    [{}, 'limiter must be a RateLimiter, got undefined'],
    [{ limiter, estimate: 5 }, 'estimate must be a function or a UsageEstimator, got 5'],
    [{ limiter, maxOutputTokens: 0 }, 'maxOutputTokens must be a whole number from 1 to 2^53 - 1, got 0'],
    [{ limiter, costOf: {} }, 'costOf must be a function, got an object'],
    [{ limiter, maxWait: '2h' }, 'maxWait must be a whole number from 0 to 3600000 milliseconds, got "2h"'],
    [{ limiter, ttl: '10ms' }, 'ttl must be a whole number from 1000 to 86400000 milliseconds, got "10ms"'],
    [{ limiter, onAbort: 'all' }, "onAbort must be 'estimate' or 'streamed' or 'nothing', got \"all\""],
    [{ limiter, onError: true }, "onError must be 'estimate' or 'streamed' or 'nothing', got true"],
    [{ limiter, pause: 1 }, 'pause must be true or false, got 1'],
    [{ limiter, onCharged: 1 }, 'onCharged must be a function, got 1'],
    [{ limiter: new RateLimiter(slidingCounter({ limit: 1, window: '1s' })) }, 'rateLimit cannot be used with sliding'],
    [{ limiter: new RateLimiter(concurrency({ limit: 1 })) }, 'rateLimit needs a policy beside concurrency'],
    [
      { limiter: new RateLimiter(calendarWindow({ limit: 1, every: 'day', meter: 'cents' })) },
      'costOf must be given: the cost of a call in "cents" is not known; return it, or give its policies a defaultCost',
    ],
  ])('%#: are checked', (options, message) => {
    expect(failureOf(() => rateLimit(anything(options)))).toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringContaining(message),
    })
  })

  test('the result of estimate is checked', async () => {
    const { generate } = setUp({ tokens }, { estimate: () => ({ outputTokens: 1.5 }) })
    await expect(generate(jest.fn())).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: 'the result of estimate: outputTokens must be a whole number from 0 to 2^53 - 1, got 1.5',
    })
  })
})
