import type { DynamicModule } from '@nestjs/common'
import { APP_GUARD } from '@nestjs/core'
import { checkCount } from '../../input/options.js'
import { RateLimitGuard } from './guard.js'
import { type NestRateLimitAsyncOptions, type NestRateLimitOptions, RATE_LIMIT_OPTIONS } from './options.js'

/**
 * Limits all routes of an app.
 *
 * For some routes only, leave it out: `@UseGuards(RateLimitGuard)` and `@RateLimit({ limiter })`.
 *
 * @example
 * \@Module({ imports: [RateLimitModule.forRoot({ limiter })] })
 */
// biome-ignore lint/complexity/noStaticOnlyClass: to Nest a module is a class.
export class RateLimitModule {
  /** @throws {TollgateError} `INVALID_OPTION`, when the app is made. */
  static forRoot<K, N extends string>(options: NestRateLimitOptions<K, N>): DynamicModule {
    checkCount(arguments.length, 1, 'forRoot takes an object of options', 'write forRoot({ limiter })')
    return moduleOf({ provide: RATE_LIMIT_OPTIONS, useValue: options })
  }

  /** {@link forRoot}, with options that are made of what the app provides. */
  static forRootAsync<K, N extends string>(options: NestRateLimitAsyncOptions<K, N>): DynamicModule {
    checkCount(arguments.length, 1, 'forRootAsync takes an object of options')
    const { imports = [], inject = [], useFactory } = options
    return { ...moduleOf({ provide: RATE_LIMIT_OPTIONS, useFactory, inject }), imports }
  }
}

function moduleOf(options: NonNullable<DynamicModule['providers']>[number]): DynamicModule {
  return {
    module: RateLimitModule,
    global: true,
    providers: [options, { provide: APP_GUARD, useClass: RateLimitGuard }],
    exports: [RATE_LIMIT_OPTIONS],
  }
}
