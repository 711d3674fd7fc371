/** Nest's guard on WebSocket gateways, of Socket.IO and of ws, and on a microservice. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { Controller, type ExecutionContext, type INestApplication, Logger, UseFilters, UseGuards } from '@nestjs/common'
import { Reflector } from '@nestjs/core'
import { ClientProxyFactory, MessagePattern, Transport } from '@nestjs/microservices'
import { WsAdapter } from '@nestjs/platform-ws'
import { SubscribeMessage, WebSocketGateway, WsException } from '@nestjs/websockets'
import { firstValueFrom } from 'rxjs'
import { io, type Socket } from 'socket.io-client'
import { WebSocket } from 'ws'
import type { Decision } from '../../ts/index.js'
import { RateLimit, RateLimitGuard, RateLimitModule } from '../../ts/middleware/nest.js'
import { until } from '../servers/until.js'
import { decorate, limiterOf, waitingLimiter, withApp } from './nest-apps.js'
import { warningsOf } from './warnings.js'

/** The client of Socket.IO, on the server. */
interface Client {
  readonly handshake: { readonly address: string }
  readonly rateLimit?: Decision
}

const clientOf = (context: ExecutionContext) => context.switchToWs().getClient<Client>()
const addressOf = (context: ExecutionContext) => clientOf(context).handshake.address
const sockets = { requestOf: clientOf, key: addressOf }

/** The gateway's answers and the exceptions that a client has received. */
interface Messages {
  readonly answers: readonly unknown[]
  readonly exceptions: readonly Readonly<Record<string, unknown>>[]
}

/** A gateway whose message `chat` answers with the decision. */
function gatewayOf(...guards: readonly RateLimitGuard[]): new () => object {
  class Gateway {
    chat({ rateLimit }: Client) {
      return { event: 'chat', data: `${rateLimit?.status} ${rateLimit?.remaining}` }
    }
    free() {
      return { event: 'chat', data: 'free' }
    }
    dear({ rateLimit }: Client) {
      return { event: 'chat', data: rateLimit?.remaining }
    }
  }
  WebSocketGateway()(Gateway)
  // Nest 11 runs no global guard in gateways.
  UseGuards(...(guards.length > 0 ? guards : [RateLimitGuard]))(Gateway)
  decorate(Gateway, 'chat', SubscribeMessage('chat'))
  decorate(Gateway, 'free', SubscribeMessage('free'), RateLimit(false))
  decorate(Gateway, 'dear', SubscribeMessage('dear'), RateLimit({ cost: 5 }))
  return Gateway
}

/** Runs a test with a gateway of Socket.IO. */
async function withGateway(options: object, test: (connect: () => Socket) => Promise<unknown>): Promise<void> {
  const limits = RateLimitModule.forRoot(options as never)
  const clients: Socket[] = []
  await withApp({ imports: [limits], providers: [gatewayOf()] }, async (url) => {
    const connect = () => {
      const client = io(url, { transports: ['websocket'], reconnection: false })
      clients.push(client)
      return client
    }
    try {
      await test(connect)
    } finally {
      for (const client of clients) {
        client.disconnect()
      }
    }
  })
}

/** Sends messages one after the other, each after the reply to the one before. */
async function exchange(client: Socket, ...names: readonly string[]): Promise<Messages> {
  const answers: unknown[] = []
  const exceptions: Readonly<Record<string, unknown>>[] = []
  for (const name of names) {
    await new Promise<void>((resolve) => {
      client.removeAllListeners()
      client.on('chat', (answer: unknown) => resolve(void answers.push(answer)))
      client.on('exception', (exception) => resolve(void exceptions.push(exception)))
      client.emit(name, {})
    })
  }
  return { answers, exceptions }
}

describe('Socket.IO', () => {
  test('messages are counted by the address; a refusal is a WsException with its status and time', async () => {
    const limiter = limiterOf(2)
    const warnings = await warningsOf(() =>
      withGateway({ limiter, ...sockets }, async (connect) => {
        const one = await exchange(connect(), 'chat', 'free', 'chat', 'chat')
        expect(one.answers).toEqual(['allowed 1', 'free', 'allowed-last 0'])
        const message = 'Too many requests, please try again later.'
        expect(one.exceptions).toEqual([{ status: 429, message, retryAfterMs: 3_600_000 }])
        expect((await exchange(connect(), 'chat')).exceptions).toMatchObject([{ status: 429 }])
      }),
    )
    expect(warnings).toEqual([])
    expect((await limiter.peek('127.0.0.1')).remaining).toBe(0)
  })

  test("each message's decision replaces that of the message before, also a refusal", async () => {
    const handler = () => true
    await withGateway({ limiter: limiterOf(3), ...sockets, handler }, async (connect) => {
      const { answers } = await exchange(connect(), 'chat', 'dear', 'chat')
      expect(answers).toEqual(['allowed 2', 2, 'allowed 1'])
    })
  })

  test('a guard that a gateway and its handler name counts a message once', async () => {
    class Gateway {
      chat({ rateLimit }: Client) {
        return { event: 'chat', data: rateLimit?.remaining }
      }
    }
    WebSocketGateway()(Gateway)
    UseGuards(RateLimitGuard)(Gateway)
    decorate(Gateway, 'chat', SubscribeMessage('chat'), UseGuards(RateLimitGuard))
    const limits = RateLimitModule.forRoot({ limiter: limiterOf(9), ...sockets })
    const warnings = await warningsOf(() =>
      withApp({ imports: [limits], providers: [Gateway] }, async (url) => {
        const client = io(url, { transports: ['websocket'], reconnection: false })
        expect((await exchange(client, 'chat', 'chat')).answers).toEqual([8, 7])
        client.disconnect()
      }),
    )
    expect(warnings).toEqual([])
  })

  test('guards with other options count a message, too: with one limiter this is a warning', async () => {
    const limiter = limiterOf(9)
    const first = new RateLimitGuard({ limiter, ...sockets }, new Reflector())
    const second = new RateLimitGuard({ limiter, ...sockets }, new Reflector())
    const Gateway = gatewayOf(first, second)
    const warnings = await warningsOf(() =>
      withApp({ providers: [Gateway] }, async (url) => {
        const client = io(url, { transports: ['websocket'], reconnection: false })
        expect((await exchange(client, 'chat')).answers).toEqual(['allowed 7'])
        client.disconnect()
      }),
    )
    expect(warnings.map(({ code }) => code)).toEqual(['TOLLGATE_COUNTED_TWICE'])
  })

  test('Nest 11 runs no global guard in a gateway', async () => {
    class Gateway {
      chat() {
        return { event: 'chat', data: 'ok' }
      }
    }
    WebSocketGateway()(Gateway)
    decorate(Gateway, 'chat', SubscribeMessage('chat'))
    const limits = RateLimitModule.forRoot({ limiter: limiterOf(1), ...sockets })
    await withApp({ imports: [limits], providers: [Gateway] }, async (url) => {
      const client = io(url, { transports: ['websocket'], reconnection: false })
      expect((await exchange(client, 'chat', 'chat')).answers).toEqual(['ok', 'ok'])
      client.disconnect()
    })
  })

  test('message, statusCode and problemDetails change the exception', async () => {
    const refusalWith = async (options: object) => {
      let found: unknown
      await withGateway({ limiter: limiterOf(1), ...sockets, ...options }, async (connect) => {
        found = (await exchange(connect(), 'chat', 'chat')).exceptions[0]
      })
      return found
    }
    expect(await refusalWith({ message: 'slow down', statusCode: 420 })).toMatchObject({
      status: 420,
      message: 'slow down',
    })
    expect(await refusalWith({ message: { hint: 'later' } })).toEqual({
      status: 429,
      hint: 'later',
      retryAfterMs: 3_600_000,
    })
    expect(await refusalWith({ problemDetails: true })).toMatchObject({
      status: 429,
      'violated-policies': ['default'],
      retryAfterMs: 3_600_000,
    })
  })

  test('a handler throws its own exception', async () => {
    const handler = () => {
      throw new WsException('own')
    }
    await withGateway({ limiter: limiterOf(1), ...sockets, handler }, async (connect) => {
      expect((await exchange(connect(), 'chat', 'chat')).exceptions).toMatchObject([{ message: 'own' }])
    })
  })

  test('without an address the message is a bad request, whose warning names key', async () => {
    const warnings = await warningsOf(() =>
      withGateway({ limiter: limiterOf(), requestOf: clientOf }, async (connect) => {
        const { exceptions } = await exchange(connect(), 'chat')
        expect(exceptions).toEqual([{ status: 400, message: 'Bad Request' }])
      }),
    )
    expect(warnings.map(({ message }) => message)).toEqual([
      expect.stringMatching(/the request of a ws context has no ip: give key, which returns its address/),
    ])
  })

  test('an error of the program is logged, and charges nothing', async () => {
    const limiter = limiterOf(5)
    const logged: unknown[] = []
    const spy = jest.spyOn(Logger.prototype, 'error').mockImplementation((error: unknown) => void logged.push(error))
    try {
      for (const options of [{ key: addressOf }, { ...sockets, refundWhen: 'failed' }]) {
        await withGateway({ limiter, ...options }, async (connect) => {
          expect((await exchange(connect(), 'chat')).exceptions).toMatchObject([{ message: 'Internal server error' }])
        })
      }
    } finally {
      spy.mockRestore()
    }
    expect(logged.map((error) => (error as Error).message)).toEqual([
      expect.stringMatching(/requestOf is missing for a ws context/),
      expect.stringMatching(/refundWhen cannot be given for a ws context/),
    ])
    expect((await limiter.peek('127.0.0.1')).remaining).toBe(5)
  })

  test('delayed messages give up their turns when the client disconnects', async () => {
    const limiter = waitingLimiter()
    const resetAfterMs = async () => (await limiter.peek('127.0.0.1')).resetAfterMs
    await withGateway({ limiter, ...sockets, delay: '30s' }, async (connect) => {
      const client = connect()
      await exchange(client, 'chat')
      client.emit('chat', {}).emit('chat', {})
      await until('both wait', async () => ((await resetAfterMs()) > 20_000 ? true : undefined))
      client.disconnect()
      await until('their slots are cancelled', async () => ((await resetAfterMs()) === 10_000 ? true : undefined))
    })
  })
})

test('over ws the app sends the exception, and a closed socket ends a delay', async () => {
  const limiter = waitingLimiter()
  class Filter {
    catch(exception: WsException, host: ExecutionContext) {
      host.switchToWs().getClient<WebSocket>().send(JSON.stringify(exception.getError()))
    }
  }
  const key = (context: ExecutionContext) => {
    const { _socket } = context.switchToWs().getClient<{ readonly _socket: { readonly remoteAddress: string } }>()
    return _socket.remoteAddress
  }
  const limits = RateLimitModule.forRoot({ limiter, requestOf: clientOf, key, delay: '15s' })
  const Gateway = gatewayOf()
  UseFilters(new Filter())(Gateway)
  const resetAfterMs = async () => (await limiter.peek('127.0.0.1')).resetAfterMs
  await withApp(
    { imports: [limits], providers: [Gateway] },
    async (url) => {
      const client = new WebSocket(url.replace('http', 'ws'))
      await once(client, 'open')
      const replies: unknown[] = []
      client.on('message', (data) => replies.push(JSON.parse(String(data))))
      for (let count = 0; count < 3; count++) {
        client.send(JSON.stringify({ event: 'chat', data: {} }))
      }
      await until('the third is refused', async () => (replies.length === 2 ? true : undefined))
      const refusal = { status: 429, message: expect.any(String), retryAfterMs: 20_000 }
      expect(replies).toContainEqual(refusal)
      expect(replies).toContainEqual({ event: 'chat', data: 'allowed-last 0' })
      expect(await resetAfterMs()).toBe(20_000)
      client.terminate()
      await until('the slot of the second is cancelled', async () =>
        (await resetAfterMs()) === 10_000 ? true : undefined,
      )
    },
    (app) => app.useWebSocketAdapter(new WsAdapter(app)),
  )
})

test('messages of a microservice are limited; a refusal is an RpcException', async () => {
  class Sums {
    sum(numbers: readonly number[]) {
      return numbers.reduce((total, number) => total + number, 0)
    }
  }
  Controller()(Sums)
  decorate(Sums, 'sum', MessagePattern('sum'))
  const limiter = limiterOf(1)
  const requestOf = (context: ExecutionContext) => context.switchToRpc().getContext<object>()
  const limits = RateLimitModule.forRoot({ limiter, requestOf, key: () => 'ann' })
  let service: { address(): AddressInfo } | undefined
  const start = async (app: INestApplication) => {
    const options = { host: '127.0.0.1', port: 0 }
    const own = app.connectMicroservice({ transport: Transport.TCP, options }, { inheritAppConfig: true })
    await app.startAllMicroservices()
    service = own.unwrap<{ address(): AddressInfo }>()
  }
  const send = async () => {
    const options = { host: '127.0.0.1', port: service?.address().port ?? 0 }
    const client = ClientProxyFactory.create({ transport: Transport.TCP, options })
    try {
      expect(await firstValueFrom(client.send('sum', [1, 2]))).toBe(3)
      const refused = await firstValueFrom(client.send('sum', [1])).catch((error: unknown) => error)
      expect(refused).toEqual({ status: 429, message: expect.any(String), retryAfterMs: 3_600_000 })
    } finally {
      await client.close()
    }
  }
  await withApp({ imports: [limits], controllers: [Sums] }, send, start)
})
