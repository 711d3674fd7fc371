/**
 * @nestjs/throttler with @nest-lab/throttler-storage-redis, which https://docs.nestjs.com/security/rate-limiting#storages
 * names: https://github.com/jmcdo29/nest-lab/tree/main/packages/throttler-storage-redis (a connection URL).
 * Decorators are called as functions, so that the program needs no compiler.
 */
import 'reflect-metadata'
import { ThrottlerStorageRedisService } from '@nest-lab/throttler-storage-redis'
import { Controller, Get, Module } from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'
import { ThrottlerGuard, ThrottlerModule } from '@nestjs/throttler'
import { KEY, ONE_PER_REQUEST, requesting } from '../harness/http.mjs'

class AppController {
  answer() {
    return 'ok'
  }
}
Get()(AppController.prototype, 'answer', Object.getOwnPropertyDescriptor(AppController.prototype, 'answer'))
Controller()(AppController)

/** @type {import('./all.mjs').Contender} */
export const contender = {
  title: '@nestjs/throttler, Redis storage',
  packages: ['@nestjs/throttler', '@nest-lab/throttler-storage-redis', 'ioredis', '@nestjs/core'],
  unsupported: ONE_PER_REQUEST,
  async open({ port, limit, windowMs }) {
    const storage = new ThrottlerStorageRedisService(`redis://127.0.0.1:${port}`)
    storage.redis.on('error', () => {})
    class AppModule {}
    Module({
      imports: [
        ThrottlerModule.forRoot({
          throttlers: [{ limit, ttl: windowMs }],
          getTracker: (request) => request.headers[KEY],
          storage,
        }),
      ],
      controllers: [AppController],
      providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
    })(AppModule)
    const app = await NestFactory.create(AppModule, { logger: false })
    await app.listen(0, '127.0.0.1')
    return requesting(app.getHttpServer().address().port)
  },
}
