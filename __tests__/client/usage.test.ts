/** `usageOf` of `OutgoingClient` by a `TestClock`: what a request is charged when its response has ended. */
import { type ClientOptions, OutgoingClient } from '../../ts/client/index.js'
import { concurrency, fixedWindow, slidingCounter, TollgateError } from '../../ts/index.js'
import { anything, failureOf, rejectionOf } from '../failure.js'
import { clock, limiterOf } from './clocked.js'

const URL = 'https://api.example.com/v1/answers'

/** What each call reserves. */
const ESTIMATE = { tokens: 100 }

const rates = {
  requests: fixedWindow({ limit: 100, window: '1h' }),
  tokens: fixedWindow({ limit: 1_000, window: '1h', meter: 'tokens', maxOwed: 5_000 }),
}

const policySets = {
  'with permits': { ...rates, atOnce: concurrency({ limit: 5, ttl: '1m', meter: 'answers', defaultCost: 1 }) },
  'with reservations': {
    ...rates,
    answers: fixedWindow({ limit: 99, window: '1h', meter: 'answers', defaultCost: 1 }),
  },
}

const json = (value: unknown, init: ResponseInit = {}) => Response.json(value, init)

/** A stream of chunks of text, which goes on when the test lets it. */
function stream(type = 'text/event-stream; charset=utf-8') {
  let controller: ReadableStreamDefaultController<Uint8Array>
  const body = new ReadableStream<Uint8Array>({
    start: (own) => {
      controller = own
    },
  })
  const write = (text: string | Uint8Array) => {
    controller.enqueue(typeof text === 'string' ? new TextEncoder().encode(text) : text)
  }
  return {
    response: new Response(body, { headers: { 'content-type': type } }),
    write,
    end: () => controller.close(),
    fail: (error: Error) => controller.error(error),
  }
}

/** The tokens of units by meter. */
const tokensIn = (units: number | { readonly [meter: string]: number }) => Object(units).tokens as number

const event = (data: unknown, end = '\n') => `event: part${end}data: ${JSON.stringify(data)}${end}${end}`

describe.each(Object.entries(policySets))('%s', (_, policies) => {
  function setUp(answers: readonly (Response | Error | (() => Promise<Response>))[], options: object = {}) {
    const limiter = limiterOf(policies)
    const left = [...answers]
    const api = new OutgoingClient({
      limiter,
      clock,
      key: 'k',
      retries: { limit: 2, minDelay: '10ms' },
      usageOf: ({ total_tokens }) => ({ tokens: total_tokens }),
      fetch: (async () => {
        const answer = left.shift()
        if (answer instanceof Error) {
          throw answer
        }
        return typeof answer === 'function' ? answer() : answer
      }) as ClientOptions['fetch'],
      ...options,
    } as ClientOptions<string, string, never, { readonly tokens: number }>)
    const charges: unknown[] = []
    api.on('charge', ({ units, settlement, error, attempt }) => {
      const moved = settlement?.settled ? [settlement.refunded, settlement.charged].map(tokensIn) : []
      charges.push(error === undefined ? [attempt, units, ...moved] : [attempt, (error as Error).message])
    })
    const send = (init: object = {}, more: object = {}) => {
      const sent = api.fetch(URL, { method: 'POST', body: '{}', ...init }, { cost: ESTIMATE, ...more })
      sent.catch(() => {})
      return sent
    }
    /** The requests, the tokens and the permits that count. */
    const used = async () => {
      const { policies } = await limiter.peek('k', { cost: { calls: 0, tokens: 0, answers: 1 } })
      return [policies.requests.used, policies.tokens.used, policies.atOnce?.used ?? 0]
    }
    const text = async (sent: Promise<Response>) => clock.advanceUntil((await clock.advanceUntil(sent)).text())
    return { api, charges, send, used, text }
  }

  test('less and more than the cost, before the reader receives the end', async () => {
    const { charges, send, used, text } = setUp([
      json({ usage: { total_tokens: 30 } }),
      json({ usage: { total_tokens: 250 } }),
    ])
    expect(await text(send())).toBe('{"usage":{"total_tokens":30}}')
    expect(await used()).toEqual([1, 30, 0])
    await text(send())
    expect(await used()).toEqual([2, 280, 0])
    expect(charges).toEqual([
      [1, { tokens: 30 }, 70, 0],
      [1, { tokens: 250 }, 0, 150],
    ])
  })

  test('what does not fit is owed', async () => {
    const { api, send, used, text } = setUp([json({ usage: { total_tokens: 1_800 } })])
    const owed: unknown[] = []
    api.on('charge', ({ settlement }) => owed.push(settlement?.settled && tokensIn(settlement.owed)))
    await text(send())
    expect([await used(), owed]).toEqual([[1, 1_000, 0], [800]])
  })

  test.each<readonly [string, readonly string[], number]>([
    ['the last event', [event({ usage: null }), event({ usage: { total_tokens: 7 } }), 'data: [DONE]\n\n'], 7],
    ['the latest numbers of a name', [event({ usage: { total_tokens: 1 } }), event({ usage: { total_tokens: 9 } })], 9],
    ['a response in an event', [event({ type: 'done', response: { usage: { total_tokens: 8 } } })], 8],
    ['line breaks of two characters', [event({ usage: { total_tokens: 6 } }, '\r\n')], 6],
    ['lines that end with a carriage return', [event({ usage: { total_tokens: 5 } }, '\r')], 5],
    ['data in several lines', ['data: {"usage":\ndata: {"total_tokens":4}}\n\n'], 4],
    ['an event that does not end', ['data: {"usage":{"total_tokens":3}}'], 3],
  ])('a stream: %s', async (_, parts, tokens) => {
    // In one chunk, and in a chunk for each byte.
    for (const size of [10_000, 1]) {
      const { response, write, end } = stream()
      const { charges, send, used, text } = setUp([response])
      const bytes = new TextEncoder().encode(`: ä€\n${parts.join('')}`)
      for (let at = 0; at < bytes.length; at += size) {
        write(bytes.slice(at, at + size))
      }
      end()
      expect(await text(send())).toBe(new TextDecoder().decode(bytes))
      expect([charges, await used()]).toEqual([[[1, { tokens }, 100 - tokens, 0]], [1, tokens, 0]])
    }
  })

  test('numbers of several events, and of members of members', async () => {
    const { response, write, end } = stream()
    const seen: object[] = []
    const usageOf = (usage: { readonly [name: string]: number }) => {
      seen.push(usage)
      return { tokens: (usage['input_tokens'] ?? 0) + (usage['output_tokens'] ?? 0) }
    }
    const { send, used, text } = setUp([response], { usageOf })
    write(event({ message: { usage: { input_tokens: 20, output_tokens: 1, details: { cached: 5 }, tier: 'x' } } }))
    write(event({ usage: { input_tokens: null, output_tokens: 12 } }))
    end()
    await text(send())
    expect(seen).toEqual([{ input_tokens: 20, output_tokens: 12, 'details.cached': 5 }])
    expect(await used()).toEqual([1, 32, 0])
  })

  test('the type of a stream in capitals', async () => {
    const { response, write, end } = stream('Text/Event-Stream')
    const { charges, send, text } = setUp([response])
    write(event({ usage: { total_tokens: 40 } }))
    end()
    await text(send())
    expect(charges).toEqual([[1, { tokens: 40 }, 60, 0]])
  })

  test('a stream with an event "error" keeps its cost, or is charged more if it has reported more', async () => {
    const charged: unknown[] = []
    for (const total_tokens of [2, 130]) {
      const { response, write, end } = stream()
      const { charges, send, text } = setUp([response])
      write(`${event({ usage: { total_tokens } })}event: error\ndata: {"type":"error"}\n\n`)
      end()
      await text(send())
      charged.push(...charges)
    }
    expect(charged).toEqual([
      [1, { tokens: 100 }, 0, 0],
      [1, { tokens: 130 }, 0, 30],
    ])
  })

  test('a body or an event of more than 16 million characters passes, and is not kept', async () => {
    const { response, write, end } = stream()
    const long = { usage: { total_tokens: 3 }, text: 'x'.repeat(17_000_000) }
    const { charges, send, text } = setUp([json(long), response])
    expect((await text(send())).length).toBeGreaterThan(17_000_000)
    write(event(long))
    write(event({ usage: { total_tokens: 40 } }))
    end()
    expect((await text(send())).length).toBeGreaterThan(17_000_000)
    expect(charges).toEqual([
      [1, undefined, 0, 0],
      [1, { tokens: 40 }, 60, 0],
    ])
  })

  test('a stream passes without delay, and is charged at its end', async () => {
    const { response, write, end } = stream()
    const { charges, send, used } = setUp([response])
    const { body } = await clock.advanceUntil(send())
    const reader = body?.getReader() as ReadableStreamDefaultReader<Uint8Array>
    write('data: {"a":1}\n\n')
    expect(new TextDecoder().decode((await reader.read()).value)).toBe('data: {"a":1}\n\n')
    expect([charges, (await used())[1]]).toEqual([[], 100])
    write(event({ usage: { total_tokens: 40 } }))
    end()
    await reader.read()
    expect((await reader.read()).done).toBe(true)
    expect([charges, (await used())[1]]).toEqual([[[1, { tokens: 40 }, 60, 0]], 40])
  })

  test('a reader that stops at the last event of a stream is charged the usage', async () => {
    const { response, write } = stream()
    const { charges, send, used } = setUp([response])
    const { body } = await clock.advanceUntil(send())
    write(`${event({ usage: { total_tokens: 40 } })}data: [DONE]\n\n`)
    const reader = body?.getReader() as ReadableStreamDefaultReader<Uint8Array>
    await reader.read()
    expect([charges, await used()]).toEqual([[[1, { tokens: 40 }, 60, 0]], [1, 40, 0]])
    await reader.cancel()
    expect(charges).toHaveLength(1)
  })

  test('a body that is cut short keeps its cost, or is charged more if it has reported more', async () => {
    const cancelled = stream()
    const failed = stream()
    const aborted = stream()
    const { api, charges, send, used } = setUp([cancelled.response, failed.response, aborted.response])
    const responses = []
    const controller = new AbortController()
    for (const init of [{}, {}, { signal: controller.signal }]) {
      responses.push(await clock.advanceUntil(send(init)))
    }
    cancelled.write(event({ usage: { total_tokens: 3 } }))
    failed.write(event({ usage: { total_tokens: 130 } }))
    const readers = responses.map(({ body }) => body?.getReader() as ReadableStreamDefaultReader)
    await readers[0]?.read()
    await readers[0]?.cancel()
    await readers[1]?.read()
    failed.fail(new Error('lost'))
    await expect(readers[1]?.read()).rejects.toThrow('lost')
    controller.abort(new Error('enough'))
    await expect(readers[2]?.read()).rejects.toThrow('enough')
    await clock.advanceUntil(api.close())
    expect(charges).toEqual([
      [1, { tokens: 100 }, 0, 0],
      [1, { tokens: 130 }, 0, 30],
      [1, undefined, 0, 0],
    ])
    expect(await used()).toEqual([3, 330, 0])
  })

  test('wrong units for a body that is cut short leave the cost', async () => {
    const { response, write } = stream()
    const usageOf = () => new Map([['tokens', 130]])
    const { api, charges, send, used } = setUp([response], { usageOf })
    const { body } = await clock.advanceUntil(send())
    const reader = body?.getReader() as ReadableStreamDefaultReader
    write(event({ usage: { total_tokens: 130 } }))
    await reader.read()
    await reader.cancel()
    await clock.advanceUntil(api.close())
    expect(charges).toEqual([[1, expect.stringContaining('must be a plain object by meter')]])
    expect(await used()).toEqual([1, 100, 0])
  })

  test('refusals and statuses from 400 to 499 give the named units back; other failures keep the cost', async () => {
    const { charges, send, used, text } = setUp([
      json({}, { status: 429, headers: { 'retry-after-ms': '40' } }),
      json({ usage: { total_tokens: 25 } }),
      json({ usage: { total_tokens: 999 } }, { status: 400 }),
      json({}, { status: 500 }),
      json({}, { status: 529 }),
      new TypeError('fetch failed'),
    ])
    await text(send())
    expect(await used()).toEqual([2, 25, 0])
    expect((await clock.advanceUntil(send())).status).toBe(400)
    expect(await used()).toEqual([3, 25, 0])
    await expect(clock.advanceUntil(send({}, { isIdempotent: true }))).rejects.toThrow('fetch failed')
    expect(await used()).toEqual([6, 325, 0])
    expect(charges).toEqual([
      [1, { tokens: 0 }, 100, 0],
      [2, { tokens: 25 }, 75, 0],
      [1, { tokens: 0 }, 100, 0],
      [1, undefined, 0, 0],
      [2, undefined, 0, 0],
      [3, undefined, 0, 0],
    ])
  })

  test('without a usage the cost stays', async () => {
    const { charges, send, used, text } = setUp([
      json({ usage: {} }),
      json([1]),
      new Response('{"usage":{"total_tokens":5}}', { headers: { 'content-type': 'text/plain' } }),
      new Response('"usage"', { headers: { 'content-type': 'application/problem+json' } }),
      new Response(null, { status: 204 }),
    ])
    for (let call = 0; call < 5; call++) {
      await text(send())
    }
    expect([charges, await used()]).toEqual([Array(5).fill([1, undefined, 0, 0]), [5, 500, 0]])
  })

  test('a function that fails, or returns wrong units, leaves the cost', async () => {
    const results = [
      () => ({ tokens: Number.NaN }),
      () => ({ token: 5 }),
      () => {
        throw new Error('mine')
      },
      () => ({}),
    ]
    const usageOf = () => results.shift()?.()
    const body = { usage: { total_tokens: 5 } }
    const { api, charges, send, used, text } = setUp([json(body), json(body), json(body), json(body)], { usageOf })
    for (let call = 0; call < 4; call++) {
      await text(send())
    }
    await clock.advanceUntil(api.close())
    expect(charges).toEqual([
      [1, expect.stringContaining('actual.tokens must be a whole number')],
      [1, expect.stringContaining('no policy has the meter "token"')],
      [1, 'mine'],
      [1, {}, 0, 0],
    ])
    expect(await used()).toEqual([4, 400, 0])
  })
})

test.each([
  ['again until the store works', 2, 30],
  ['five times more', 9, 100],
])('settles %s, and neither the reader nor the cost waits', async (_, failures, expected) => {
  const limiter = limiterOf(fixedWindow({ limit: 1_000, window: '1h' }))
  let tries = 0
  const reserve = async (...call: [string, number, object]) => {
    const reservation = await limiter.reserve(...call)
    const commit = (units: number) => {
      tries++
      return tries > failures
        ? Object(reservation).commit(units)
        : Promise.reject(new TollgateError('STORE_ERROR', 'x'))
    }
    return { ...reservation, commit }
  }
  const { policies, tiers, take, block } = limiter
  const failing = { policies, tiers, take, block, reserve }
  const bodies = [{ usage: { total_tokens: 30 } }]
  const usageOf = jest.fn(({ total_tokens = 0 }) => total_tokens)
  const fetch = (async () => json(bodies.shift())) as ClientOptions['fetch']
  const api = new OutgoingClient({ limiter: anything(failing), clock, key: 'k', usageOf, ...(fetch && { fetch }) })
  const events: unknown[] = []
  api.on('charge', ({ units, error }) => events.push([units, (error as TollgateError | undefined)?.code]))
  const response = await clock.advanceUntil(api.fetch(URL, {}, { cost: 100 }))
  expect(await response.json()).toEqual({ usage: { total_tokens: 30 } })
  expect([tries, events, (await limiter.peek('k')).used]).toEqual([1, [], 100])
  await clock.advanceUntil(api.close())
  expect([tries, events]).toEqual([Math.min(6, failures + 1), [[30, failures < 6 ? undefined : 'STORE_ERROR']]])
  expect([usageOf.mock.calls.length, (await limiter.peek('k')).used]).toEqual([1, expected])
})

test('a response whose body is read elsewhere is passed on, and keeps its cost', async () => {
  const limiter = limiterOf(fixedWindow({ limit: 1_000, window: '1h' }))
  const response = json({ usage: { total_tokens: 30 } })
  const reader = response.body?.getReader()
  const fetch = (async () => response) as ClientOptions['fetch']
  const usageOf = ({ total_tokens = 0 }) => total_tokens
  const api = new OutgoingClient({ limiter, clock, key: 'k', usageOf, ...(fetch && { fetch }) })
  expect(await clock.advanceUntil(api.fetch(URL, {}, { cost: 100 }))).toBe(response)
  expect((await reader?.read())?.done).toBe(false)
  expect((await limiter.peek('k')).used).toBe(100)
  await clock.advanceUntil(api.close())
})

test('units without meters', async () => {
  const limiter = limiterOf(fixedWindow({ limit: 1_000, window: '1h' }))
  const bodies = [{ usage: { total_tokens: 30 } }, {}]
  const statuses = [200, 404]
  const fetch = (async () => json(bodies.shift(), { status: statuses.shift() ?? 200 })) as ClientOptions['fetch']
  const usageOf = ({ total_tokens = 0 }) => total_tokens
  const api = new OutgoingClient({ limiter, clock, key: 'k', usageOf, ...(fetch && { fetch }) })
  for (const expected of [30, 30]) {
    await (await clock.advanceUntil(api.fetch(URL, {}, { cost: 100 }))).text()
    expect((await limiter.peek('k')).used).toBe(expected)
  }
})

test('without permits, a call waits until its cost fits', async () => {
  const limiter = limiterOf(policySets['with reservations'])
  const fetch = (async () => json({ usage: { total_tokens: 900 } })) as ClientOptions['fetch']
  const usageOf = ({ total_tokens = 0 }) => ({ tokens: total_tokens })
  const api = new OutgoingClient({ limiter, clock, key: 'k', maxWait: '2h', usageOf, ...(fetch && { fetch }) })
  const began = clock.now()
  const send = () => clock.advanceUntil(api.fetch(URL, undefined, { cost: { tokens: 200 } }))
  await (await send()).text()
  await (await send()).text()
  expect(clock.now() - began).toBeGreaterThan(1_800_000)
  await api.close()
})

test('policies and options that do not fit', async () => {
  const usageOf = () => ({})
  const message = (policy: Parameters<typeof limiterOf>[0], options: object = {}) =>
    failureOf(() => new OutgoingClient(anything({ limiter: limiterOf(policy), usageOf, ...options }))).message
  expect(message(concurrency({ limit: 1 }))).toContain('usageOf needs a policy beside concurrency')
  expect(message(slidingCounter({ limit: 1, window: '1s' }))).toContain('usageOf cannot be used with slidingCounter')
  expect(message(rates, { usageOf: 7 })).toContain('usageOf must be a function, got 7')
  expect(message(rates, { holdUntil: 'headers' })).toContain("holdUntil must be 'body' beside usageOf")
  const api = new OutgoingClient({ limiter: limiterOf(rates), usageOf, key: 'k', clock })
  expect((await rejectionOf(api.fetch(URL, {}, anything({ cost: { token: 1 } })))).code).toBe('INVALID_COST')
})
