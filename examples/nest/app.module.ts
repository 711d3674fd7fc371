import { Module } from '@nestjs/common'
import { RateLimitModule } from 'tollgate/nest'
import { Limits, LimitsModule } from './limits.module.js'
import { WordsController } from './words.controller.js'

@Module({
  imports: [
    // Its guard protects all routes of the app. The key is the client's address.
    RateLimitModule.forRootAsync({
      imports: [LimitsModule],
      inject: [Limits],
      useFactory: ({ api }: Limits) => ({
        limiter: api,
        message: (_context, { retryAfterMs }) => ({ error: 'Too many requests', retryAfterMs }),
      }),
    }),
  ],
  controllers: [WordsController],
})
export class AppModule {}
