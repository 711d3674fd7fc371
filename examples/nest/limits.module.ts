import { Injectable, Module, type OnApplicationShutdown } from '@nestjs/common'
import { gcra, MemoryStore, RateLimiter, RedisStore } from 'tollgate'

const { REDIS_URL } = process.env

/** The app's limiters and their store: created once, and closed with the app. */
@Injectable()
export class Limits implements OnApplicationShutdown {
  readonly #store = REDIS_URL ? new RedisStore(REDIS_URL) : new MemoryStore()

  // Without Redis each process counts for itself, which is correct for a single process.
  readonly api = new RateLimiter(gcra({ limit: 20, period: '1h' }), { store: this.#store, prefix: 'api' })

  async onApplicationShutdown(): Promise<void> {
    await this.api.close()
    if (this.#store instanceof RedisStore) await this.#store.close()
  }
}

@Module({ providers: [Limits], exports: [Limits] })
export class LimitsModule {}
