// A Nest app: a guard for all routes, limits from the app's providers, and routes with other
// options.
// Run it:  npx tsc -p examples/nest && node target/examples/nest/main.js   then   curl -i http://localhost:3000/words
//   REDIS_URL=redis://localhost node target/examples/nest/main.js    counts in Redis, for any number of processes
import 'reflect-metadata'
import { NestFactory } from '@nestjs/core'
import type { NestExpressApplication } from '@nestjs/platform-express'
import { AppModule } from './app.module.js'

async function main(): Promise<void> {
  const app = await NestFactory.create<NestExpressApplication>(AppModule, { logger: ['warn', 'error'] })
  // Behind a proxy, add app.set('trust proxy', 1): otherwise all clients have the proxy's address.
  // On SIGTERM the requests in flight are answered, and then the limiter and the store are closed.
  app.enableShutdownHooks()
  await app.listen(process.env.PORT ?? 3000)
  console.log(await app.getUrl())
}

void main()
