/** Nest apps over real sockets. Their decorators are called as functions: tests are compiled without. */
import 'reflect-metadata'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type INestApplication, Module, type ModuleMetadata } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { fixedWindow, gcra, MemoryStore, RateLimiter } from '../../ts/index.js'
import { FakeClock } from '../clock.js'

const frozenStore = () => new MemoryStore({ clock: new FakeClock().read })

/** A limit per hour, on a clock that stands still. */
export function limiterOf(limit = 100) {
  return new RateLimiter(fixedWindow({ limit, window: '1h' }), { store: frozenStore() })
}

/** One unit per 10 seconds, on a clock that stands still. */
export function waitingLimiter() {
  return new RateLimiter(gcra({ limit: 1, period: '10s', burst: 1 }), { store: frozenStore() })
}

/** Decorates a method of a class. */
export function decorate<C extends object>(
  Class: { readonly prototype: C },
  method: keyof C & string,
  ...decorators: readonly MethodDecorator[]
): void {
  for (const decorator of decorators) {
    decorator(Class.prototype, method, Object.getOwnPropertyDescriptor(Class.prototype, method) as never)
  }
}

/** Runs a test with a listening app. */
export async function withApp(
  metadata: ModuleMetadata,
  test: (url: string, app: INestApplication) => Promise<unknown>,
  prepare: (app: INestApplication) => unknown = () => {},
): Promise<void> {
  class Root {}
  Module(metadata)(Root)
  const app = await NestFactory.create(Root, { logger: false, abortOnError: false })
  try {
    await prepare(app)
    await app.listen(0, '127.0.0.1')
    const server = app.getHttpServer() as Server
    await test(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, app)
  } finally {
    await app.close()
  }
}
