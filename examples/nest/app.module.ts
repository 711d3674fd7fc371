import { Module } from '@nestjs/common'
import { RateLimitModule } from 'tollgate/nest'
import { Limits, LimitsModule } from './limits.module.js'
import { WordsController } from './words.controller.js'

@Module({
  imports: [
    // Its guard stands before all routes of the app; the client's address is the key.
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
