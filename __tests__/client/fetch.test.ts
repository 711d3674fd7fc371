/** `OutgoingClient.fetch` against a real HTTP server. */
import { getEventListeners, once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

import { OutgoingClient } from '../../ts/client/index.js'
import { concurrency, fixedWindow, gcra, MemoryStore, RateLimiter } from '../../ts/index.js'
import { TestClock } from '../../ts/testing/index.js'
import { anything } from '../failure.js'
import { until } from '../servers/until.js'

interface Received {
  readonly method: string | undefined
  readonly body: string
}

let server: Server
let url: string
let received: Received[] = []
let answer: (req: IncomingMessage, res: ServerResponse) => void

beforeAll(async () => {
  server = createServer(async (req, res) => {
    const chunks: Buffer[] = []
    for await (const chunk of req) {
      chunks.push(chunk as Buffer)
    }
    received.push({ method: req.method, body: Buffer.concat(chunks).toString() })
    answer(req, res)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/items`
})

afterAll(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

beforeEach(() => {
  received = []
  answer = (_, res) => void res.end('yes')
})

/** Answers with these statuses in order, then with 200. */
const statuses = (...list: readonly number[]) => {
  const left = [...list]
  answer = (_, res) => {
    res.statusCode = left.shift() ?? 200
    res.end('yes')
  }
}

const client = (options: object = {}) => {
  const limiter = new RateLimiter(gcra({ limit: 1_000, period: '1s' }))
  return new OutgoingClient({ limiter, retries: { minDelay: '10ms' }, ...options })
}

test('resolves to the response, and its key is the host', async () => {
  const api = client()
  const keys: string[] = []
  api.on('start', ({ key }) => keys.push(key))
  const response = await api.fetch(url)
  expect([response.status, await response.text()]).toEqual([200, 'yes'])
  await api.fetch(new URL(url), { method: 'HEAD' })
  await api.fetch(new Request(url), undefined, { key: 'own' })
  await client({ key: 'always' }).fetch(url)
  expect(keys).toEqual([new URL(url).host, new URL(url).host, 'own'])
})

test.each<readonly [string, RequestInit, readonly number[], number, number]>([
  // Name, request, the statuses of the server; the attempts, and the last status.
  ['a GET after 502 and 503', {}, [502, 503], 3, 200],
  ['a GET after too many failures', {}, [502, 502, 502, 502], 3, 502],
  ['a GET after 404', {}, [404], 1, 404],
  ['a POST after 502', { method: 'POST', body: 'x' }, [502], 1, 502],
  ['a POST after 429', { method: 'POST', body: 'x' }, [429], 2, 200],
  ['a POST with a key after 502', { method: 'POST', headers: { 'Idempotency-Key': '1' } }, [502], 2, 200],
  ['a PUT after 500', { method: 'put', body: 'x' }, [500], 2, 200],
])('%s', async (_, init, list, attempts, last) => {
  statuses(...list)
  const { status } = await client().fetch(url, init)
  expect([received.length, status]).toEqual([attempts, last])
})

test('the body of a request is sent again; a stream is not', async () => {
  statuses(429)
  await client().fetch(new Request(url, { method: 'POST', body: 'text' }))
  expect(received.map(({ body }) => body)).toEqual(['text', 'text'])
  received = []
  statuses(429)
  const body = new ReadableStream({
    start: (controller) => {
      controller.enqueue(new TextEncoder().encode('stream'))
      controller.close()
    },
  })
  const init = { method: 'PUT', body, duplex: 'half' } as RequestInit
  expect((await client().fetch(url, init)).status).toBe(429)
  expect(received.map((request) => request.body)).toEqual(['stream'])
})

test('a lost connection is retried for idempotent requests only', async () => {
  let lost = 0
  answer = (req, res) => {
    if (lost++ % 2 === 0) {
      req.socket.destroy()
    } else {
      res.end('yes')
    }
  }
  expect((await client().fetch(url)).status).toBe(200)
  lost = 0
  await expect(client().fetch(url, { method: 'POST', body: 'x' })).rejects.toThrow('fetch failed')
  expect(received.map(({ method }) => method)).toEqual(['GET', 'GET', 'POST'])
})

test('with holdUntil: headers a permit is held until the response has its headers', async () => {
  const limiter = new RateLimiter(concurrency({ limit: 2 }))
  const api = client({ limiter, holdUntil: 'headers' })
  let running: ServerResponse[] = []
  answer = (req, res) => {
    if (req.url === '/other') {
      res.end()
    } else {
      running.push(res)
    }
  }
  const calls = Array.from({ length: 10 }, () => api.fetch(url))
  for (let pair = 0; pair < 5; pair++) {
    await until('two are running', async () => running.length >= 2)
    // A further request would arrive before these.
    await fetch(new URL('/other', url))
    await fetch(new URL('/other', url))
    expect(running).toHaveLength(2)
    const pairOfResponses = running
    running = []
    for (const res of pairOfResponses) {
      res.end('yes')
    }
  }
  expect((await Promise.all(calls)).map(({ status }) => status)).toEqual(Array(10).fill(200))
})

describe('a permit is held until the body has ended', () => {
  const long = 'x'.repeat(200_000)
  const concurrent = (limit: number, options: object = {}) => {
    return client({ limiter: new RateLimiter(concurrency({ limit })), ...options })
  }

  test('open streams count, and free their permits as they end', async () => {
    const open: ServerResponse[] = []
    answer = (_, res) => {
      res.write('first')
      open.push(res)
    }
    const api = concurrent(2)
    const calls = Array.from({ length: 4 }, () => api.fetch(url))
    const responses = await Promise.all(calls.slice(0, 2))
    expect(api.status()).toMatchObject({ queued: 2, running: 2 })
    for (const res of open) {
      res.end(' last')
    }
    expect(await Promise.all(responses.map((response) => response.text()))).toEqual(['first last', 'first last'])
    const later = await Promise.all(calls.slice(2))
    for (const res of open.slice(2)) {
      res.end()
    }
    await Promise.all(later.map((response) => response.text()))
    await until('nothing runs', async () => api.status().running === 0)
  })

  test('cancelling a body frees its permit; so does the end of a short one that nobody reads', async () => {
    answer = (_, res) => void res.end(long)
    const api = concurrent(1)
    const [first] = await Promise.all([api.fetch(url)])
    expect(api.status().running).toBe(1)
    await first.body?.cancel()
    await until('the permit is free', async () => api.status().running === 0)
    answer = (_, res) => void res.end('short')
    const unread = await Promise.all([api.fetch(url), api.fetch(url), api.fetch(url)])
    await until('the permits are free', async () => api.status().running === 0)
    expect(await Promise.all(unread.map((response) => response.text()))).toEqual(['short', 'short', 'short'])
  })

  test('a long body that nobody reads keeps its permit for a minute', async () => {
    const clock = new TestClock()
    const limiter = new RateLimiter(concurrency({ limit: 1 }), { store: new MemoryStore({ clock }) })
    const fetch = async () => new Response(long)
    const api = new OutgoingClient({ limiter, clock, fetch })
    const response = await clock.advanceUntil(api.fetch(url))
    await clock.advance('59s')
    expect(api.status().running).toBe(1)
    await clock.advance('2s')
    expect(api.status().running).toBe(0)
    expect(await response.text()).toBe(long)
  })

  test('no body, a failed body, and an abort free it', async () => {
    const api = concurrent(1)
    expect((await api.fetch(url, { method: 'HEAD' })).body).toBeNull()
    answer = (_, res) => void res.writeHead(204).end()
    expect((await api.fetch(url)).status).toBe(204)
    answer = (_, res) => {
      res.write('part')
      setImmediate(() => res.destroy())
    }
    const ends: boolean[] = []
    api.on('end', ({ isSuccess }) => ends.push(isSuccess))
    await expect((await api.fetch(url)).text()).rejects.toThrow()
    answer = (_, res) => void res.write('part')
    const controller = new AbortController()
    const response = await api.fetch(url, { signal: controller.signal })
    controller.abort(new Error('enough'))
    await expect(response.text()).rejects.toThrow('enough')
    await until('the permit is free', async () => api.status().running === 0)
    expect(ends).toEqual([false, false])
  })

  test('the response is as that of fetch, and so are its clones', async () => {
    answer = (_, res) => {
      res.statusMessage = 'Fine'
      res.setHeader('X-Own', 'yes')
      res.end('{"a":1}')
    }
    const response = await concurrent(1).fetch(url)
    const clone = response.clone()
    for (const each of [response, clone]) {
      expect(each).toBeInstanceOf(Response)
      const { status, statusText, ok, type, redirected } = each
      expect([status, statusText, ok, each.url, type, redirected]).toEqual([200, 'Fine', true, url, 'basic', false])
      expect(each.headers.get('x-own')).toBe('yes')
      expect(await each.json()).toEqual({ a: 1 })
    }
    const bytes = await concurrent(1).fetch(url)
    const reader = bytes.body?.getReader({ mode: 'byob' })
    const read = await reader?.read(new Uint8Array(4))
    expect(new TextDecoder().decode(read?.value)).toBe('{"a"')
    await reader?.cancel()
  })
})

test('both signals abort a request: that of fetch, and that of the call', async () => {
  let arrived = 0
  answer = () => {
    arrived++
  }
  const api = client()
  for (const aborted of [0, 1]) {
    const controllers = [new AbortController(), new AbortController()] as const
    arrived = 0
    const call = api.fetch(url, { signal: controllers[0].signal }, { signal: controllers[1].signal })
    call.catch(() => {})
    await until('the request arrives', async () => arrived === 1)
    controllers[aborted]?.abort(new Error(`signal ${aborted}`))
    await expect(call).rejects.toThrow(`signal ${aborted}`)
  }
  const both = [AbortSignal.abort('one'), new AbortController().signal] as const
  await expect(api.fetch(url, { signal: both[0] }, { signal: both[1] })).rejects.toMatchObject({ cause: 'one' })
  expect(api.status()).toMatchObject({ queued: 0, running: 0 })
})

describe('a signal aborts the body of a response', () => {
  const policies = {
    gcra: gcra({ limit: 100, period: '1s' }),
    fixedWindow: fixedWindow({ limit: 100, window: '1s' }),
    concurrency: concurrency({ limit: 100 }),
  }
  const passed: readonly (readonly [string, (api: OutgoingClient, signal: AbortSignal) => Promise<Response>])[] = [
    ['of fetch', (api, signal) => api.fetch(url, { signal })],
    ['of the call', (api, signal) => api.fetch(url, {}, { signal })],
    ['of a request', (api, signal) => api.fetch(new Request(url, { signal }))],
    ['beside another one', (api, signal) => api.fetch(url, { signal: new AbortController().signal }, { signal })],
  ]

  beforeEach(() => {
    answer = (_, res) => void res.write('part')
  })

  test.each(
    Object.entries(policies).flatMap(([name, policy]) => {
      return (['body', 'headers'] as const).flatMap((holdUntil) => {
        return passed.map(([whose, pass]) => [name, holdUntil, whose, policy, pass] as const)
      })
    }),
  )('under %s, held until %s: the signal %s', async (_, holdUntil, __, policy, pass) => {
    const api = client({ limiter: new RateLimiter(policy), holdUntil })
    const controller = new AbortController()
    const response = await pass(api, controller.signal)
    const text = response.text()
    controller.abort(new Error('enough'))
    await expect(text).rejects.toThrow('enough')
  })

  test('also of one that was not read for a minute', async () => {
    const clock = new TestClock()
    const limiter = new RateLimiter(concurrency({ limit: 1 }), { store: new MemoryStore({ clock }) })
    answer = (_, res) => void res.write('x'.repeat(200_000))
    const api = new OutgoingClient({ limiter, clock })
    const controller = new AbortController()
    const response = await api.fetch(url, { signal: controller.signal })
    await until('its permit is free', async () => {
      await clock.advance('1m')
      return api.status().running === 0
    })
    controller.abort(new Error('enough'))
    await expect(response.text()).rejects.toThrow('enough')
  })
})

test('signals keep no listeners of bodies that were read, and none of calls that were rejected', async () => {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  const shared = new AbortController()
  const api = client({ limiter: new RateLimiter(concurrency({ limit: 1 })), holdUntil: 'headers', maxQueued: 1 })
  const listeners = () => getEventListeners(shared.signal, 'abort').length
  for (let index = 0; index < 5; index++) {
    await (await api.fetch(url, { signal: new AbortController().signal }, { signal: shared.signal })).text()
  }
  await until('the responses are collected', async () => {
    collectGarbage()
    return listeners() === 0
  })
  let end: (() => void) | undefined
  const running = api.schedule(() => new Promise<void>((resolve) => (end = resolve)), { key: 'k' })
  await until('it runs', async () => end !== undefined)
  const waiting = api.schedule(() => {}, { key: 'k' })
  const own = new AbortController()
  const options = { key: 'k', signal: shared.signal }
  await expect(api.fetch(url, { signal: own.signal }, options)).rejects.toMatchObject({ code: 'OVERLOADED' })
  expect(listeners()).toBe(0)
  own.abort()
  await expect(api.fetch(url, { signal: own.signal }, options)).rejects.toMatchObject({ code: 'ABORTED' })
  const wrong = { ...options, key: anything(7n) }
  end?.()
  await Promise.all([running, waiting])
  const another = new AbortController().signal
  await expect(api.fetch(url, { signal: another }, wrong)).rejects.toMatchObject({ code: 'INVALID_KEY' })
  expect(listeners()).toBe(0)
})

test('a signal aborts the request, given as that of fetch or of the call', async () => {
  let arrived = 0
  answer = () => {
    arrived++
  }
  const api = client()
  for (const pass of [
    (signal: AbortSignal) => api.fetch(url, { signal }),
    (signal: AbortSignal) => api.fetch(url, {}, { signal }),
  ]) {
    const controller = new AbortController()
    arrived = 0
    const call = pass(controller.signal)
    call.catch(() => {})
    await until('the request arrives', async () => arrived === 1)
    controller.abort()
    await expect(call).rejects.toMatchObject({ name: 'AbortError' })
  }
  expect(api.status().running).toBe(0)
})

test('a function of its own sends the requests', async () => {
  const fetch = jest.fn(async () => new Response('own'))
  const api = client({ fetch })
  expect(await (await api.fetch('https://api.example.com/a', { method: 'POST' })).text()).toBe('own')
  expect(fetch.mock.calls).toMatchObject([['https://api.example.com/a', { method: 'POST' }]])
})

test('bad input', async () => {
  const api = client()
  await expect(api.fetch('/relative')).rejects.toMatchObject({ code: 'INVALID_KEY' })
  await expect(api.fetch(url, anything('POST'))).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  await expect(api.fetch(url, {}, anything({ retries: 1 }))).rejects.toMatchObject({
    code: 'INVALID_OPTION',
    message: expect.stringContaining('fetch has no option "retries"'),
  })
})
