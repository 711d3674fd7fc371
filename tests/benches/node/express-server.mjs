/**
 * An Express server with one limiter, in its own process, which `express.mjs` starts.
 *
 * Arguments: the name of the limiter, and Redis's URL.
 */
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import { CONTENDERS, LIMIT } from './redis-contenders.mjs'
import { serve } from './serving.mjs'

const WINDOW_MS = 3_600_000

const [name, url] = process.argv.slice(2)

const app = express()
app.disable('x-powered-by')
app.disable('etag')
app.get('/:user', await limiterNamed(name), (_request, response) => {
  response.type('text/plain').send('ok')
})

serve(app)

async function limiterNamed(name) {
  if (name === 'no limiter') return (_request, _response, next) => next()
  if (name === 'express-rate-limit, memory') {
    return rateLimit({
      windowMs: WINDOW_MS,
      limit: LIMIT,
      keyGenerator: (request) => request.params.user,
      // The others also send no headers.
      standardHeaders: false,
      legacyHeaders: false,
    })
  }
  const { calls, isAllowed } = await CONTENDERS[name](url, 1)
  const [call] = calls
  return async (request, response, next) => {
    if (isAllowed(await call(request.params.user))) {
      next()
    } else {
      response.sendStatus(429)
    }
  }
}
