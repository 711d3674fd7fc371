import type { DynamicModule } from '@nestjs/common'
import { APP_GUARD } from '@nestjs/core'
import { checkCount } from '../../input/options.js'
import { RateLimitGuard } from './guard.js'
import {
  type NestFactoryOptions,
  type NestLimitersOptions,
  type NestRateLimitAsyncOptions,
  type NestRateLimitOptions,
  RATE_LIMIT_OPTIONS,
} from './options.js'

/**
 * Limits all routes of an app. To limit only some routes, do not import it: use `@UseGuards(RateLimitGuard)` and
 * `@RateLimit({ limiter })`.
 *
 * @example
 * \@Module({ imports: [RateLimitModule.forRoot({ limiter })] })
 */
// biome-ignore lint/complexity/noStaticOnlyClass: to Nest a module is a class.
export class RateLimitModule {
  /** @throws {TollgateError} `INVALID_OPTION`, when the app is created. */
  static forRoot<K, N extends string, L, U = number>(options: NestRateLimitOptions<K, N, L, U>): DynamicModule
  /** {@link forRoot} without a common limiter. */
  static forRoot<L>(options: NestLimitersOptions<L>): DynamicModule
  static forRoot(options: object): DynamicModule {
    checkCount(arguments.length, 1, 'forRoot takes an object of options', 'write forRoot({ limiter })')
    return moduleOf({ provide: RATE_LIMIT_OPTIONS, useValue: options })
  }

  /** {@link forRoot} with options from a factory, which may use the app's providers. */
  static forRootAsync<K, N extends string, L, U = number>(options: NestRateLimitAsyncOptions<K, N, L, U>): DynamicModule
  /** {@link forRootAsync} without a common limiter. */
  static forRootAsync<L>(options: NestFactoryOptions<NestLimitersOptions<L>>): DynamicModule
  static forRootAsync(options: NestFactoryOptions<object>): DynamicModule {
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
