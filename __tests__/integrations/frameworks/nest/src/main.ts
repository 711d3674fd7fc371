// src/main.ts
import 'reflect-metadata'
import { Controller, Get, Module, Post } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import type { NestExpressApplication } from '@nestjs/platform-express'
import { fixedWindow, gcra, RateLimiter, RedisStore } from 'tollgate'
import { RateLimit, RateLimitModule } from 'tollgate/nest'

const store = new RedisStore({ url: process.env['REDIS_URL'] ?? 'redis://localhost:6379' })
const requests = new RateLimiter(gcra({ limit: 100, period: '1m', burst: 20 }), { store, prefix: 'requests' })
const logins = new RateLimiter(fixedWindow({ limit: 5, window: '1h' }), { store, prefix: 'logins' })

@Controller()
class AppController {
  @Get()
  hello() {
    return 'hello'
  }

  @RateLimit('logins')
  @Post('login')
  login() {
    return 'welcome'
  }

  @RateLimit(false)
  @Get('robots.txt')
  robots() {
    return 'User-agent: *'
  }
}

@Module({
  imports: [RateLimitModule.forRoot({ limiter: requests, limiters: { logins: { limiter: logins } } })],
  controllers: [AppController],
})
class AppModule {}

const app = await NestFactory.create<NestExpressApplication>(AppModule)
// One proxy is in front of the app.
app.set('trust proxy', 1)
await app.listen(process.env['PORT'] ?? 3000)
