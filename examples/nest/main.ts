// A Nest app: a guard before all routes, limits that are made of what the app provides, and routes that differ.
// Run it:  npx tsc -p examples/nest && node target/examples/nest/main.js   then   curl -i http://localhost:3000/words
//   REDIS_URL=redis://localhost node target/examples/nest/main.js    counts in Redis, for any number of processes
import 'reflect-metadata'
import { NestFactory } from '@nestjs/core'
import type { NestExpressApplication } from '@nestjs/platform-express'
import { AppModule } from './app.module.js'

async function main(): Promise<void> {
  const app = await NestFactory.create<NestExpressApplication>(AppModule, { logger: ['warn', 'error'] })
  // Behind a proxy, say so: app.set('trust proxy', 1). Else all clients have the proxy's address.
  // On SIGTERM the requests under way are answered, and then limiter and store are closed.
  app.enableShutdownHooks()
  await app.listen(process.env.PORT ?? 3000)
  console.log(await app.getUrl())
}

void main()
